! SPDX-License-Identifier: Apache-2.0
! The same by mpif.h, as old programs have it.
program fortran_old
    implicit none
    include 'mpif.h'
    integer :: rank, size, code, i, comm, requests(3), failures, all, got, before, next
    integer :: statuses(MPI_STATUS_SIZE, 3)
    real :: in(5000), out(5000)
    double precision :: place(10)

    call MPI_Init(code)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
    call MPI_Comm_size(MPI_COMM_WORLD, size, code)
    failures = 0
    do i = 1, 5000
        in(i) = real(rank + i)
    end do
    call MPI_Allreduce(in, out, 5000, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, code)
    do i = 1, 5000
        if (out(i) /= real(size * (size - 1) / 2 + size * i)) failures = failures + 1
    end do
    place = rank
    call MPI_Allreduce(MPI_IN_PLACE, place, 10, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, code)
    if (any(place /= size - 1)) failures = failures + 1
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, comm, code)
    next = mod(rank + 1, size)
    before = mod(rank + size - 1, size)
    call MPI_Irecv(got, 1, MPI_INTEGER, before, 5, MPI_COMM_WORLD, requests(1), code)
    call MPI_Iallreduce(in, out, 5000, MPI_REAL, MPI_MAX, comm, requests(2), code)
    call MPI_Isend(rank, 1, MPI_INTEGER, next, 5, MPI_COMM_WORLD, requests(3), code)
    call MPI_Waitall(3, requests, statuses, code)
    if (got /= before .or. statuses(MPI_SOURCE, 1) /= before) failures = failures + 1
    if (out(1) < in(1)) failures = failures + 1
    call MPI_Comm_free(comm, code)
    call MPI_Allreduce(failures, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
    call MPI_Finalize(code)
    if (rank == 0) print '(i0,a)', all, ' failures'
    if (all /= 0) stop 1
end program
