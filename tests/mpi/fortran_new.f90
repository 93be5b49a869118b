! SPDX-License-Identifier: Apache-2.0
! The same by `use mpi_f08`.
program fortran_new
    use mpi_f08
    implicit none
    integer :: rank, size, i, failures, all, got, before, next
    type(MPI_Comm) :: comm
    type(MPI_Request) :: requests(3)
    type(MPI_Status) :: statuses(3)
    real, asynchronous :: in(5000), out(5000)
    double precision :: place(10)

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, size)
    failures = 0
    do i = 1, 5000
        in(i) = real(rank + i)
    end do
    call MPI_Allreduce(in, out, 5000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
    do i = 1, 5000
        if (out(i) /= real(size * (size - 1) / 2 + size * i)) failures = failures + 1
    end do
    place = rank
    call MPI_Allreduce(MPI_IN_PLACE, place, 10, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD)
    if (any(place /= size - 1)) failures = failures + 1
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, comm)
    next = mod(rank + 1, size)
    before = mod(rank + size - 1, size)
    call MPI_Irecv(got, 1, MPI_INTEGER, before, 5, MPI_COMM_WORLD, requests(1))
    call MPI_Iallreduce(in, out, 5000, MPI_REAL, MPI_MAX, comm, requests(2))
    call MPI_Isend(rank, 1, MPI_INTEGER, next, 5, MPI_COMM_WORLD, requests(3))
    call MPI_Waitall(3, requests, statuses)
    if (got /= before .or. statuses(1)%MPI_SOURCE /= before) failures = failures + 1
    if (out(1) < in(1)) failures = failures + 1
    call MPI_Comm_free(comm)
    call MPI_Allreduce(failures, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call MPI_Finalize()
    if (rank == 0) print '(i0,a)', all, ' failures'
    if (all /= 0) stop 1
end program
