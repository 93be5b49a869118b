#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# coll_suite.sh FOLDER MPI: MPICH's own tests of collectives, as Debian has their source, built for
# openmpi or mpich of Debian in FOLDER. What is built already stays. The last line of what fails says
# why; 3: what is needed cannot be fetched.
set -u
folder=$1 mpi=$2
mkdir -p "$folder/lists/partial" && cd "$folder" || exit 1
exec 9>lock && flock 9 || exit 1 # tests of two MPIs share the source

# From where Debian's mpich comes.
fetch() {
    local uri suite
    read -r uri suite < <(apt-cache policy mpich | awk '$2 ~ /:/ && $3 ~ /\// { print $2, $3; exit }')
    [ -n "${uri-}" ] || {
        echo "apt knows no mpich"
        exit 3
    }
    echo "deb-src $uri ${suite%%/*} ${suite#*/}" >source.list
    local -a own=(-o "Dir::Etc::sourcelist=$PWD/source.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$PWD/lists" -o APT::Sandbox::User=root)
    apt-get "${own[@]}" update -qq && apt-get "${own[@]}" source -qq --download-only mpich || {
        echo "apt-get cannot fetch the source of mpich"
        exit 3
    }
    mkdir mpich-source && tar xf mpich_*.orig.tar.xz -C mpich-source --strip-components=1 || exit 1
    # names of MPI 1 that Open MPI has no more
    sed -i 's/MPI_Type_hvector(/MPI_Type_create_hvector(/; s/MPI_Type_hindexed(/MPI_Type_create_hindexed(/' \
        mpich-source/test/mpi/dtpools/src/*.c
    touch fetched
}

# What the suite takes for an MPI: a folder with its programs.
make_prefix() {
    mkdir -p "$mpi-prefix/bin"
    ln -sf "$(command -v "mpicc.$mpi")" "$mpi-prefix/bin/mpicc"
    local root=
    [ "$mpi" != openmpi ] || root='--allow-run-as-root --oversubscribe ${PRELOAD:+-x LD_PRELOAD=$PRELOAD}'
    [ "$mpi" != mpich ] || root='${PRELOAD:+-genv LD_PRELOAD $PRELOAD}'
    printf '#!/bin/sh\nexec mpirun.%s %s "$@"\n' "$mpi" "$root" >"$mpi-prefix/bin/mpiexec"
    chmod +x "$mpi-prefix/bin/mpiexec"
}

[ -e fetched ] || { rm -rf mpich-source && fetch; }
[ ! -e "$mpi/complete" ] || exit 0
rm -rf "$mpi" && mkdir "$mpi" && make_prefix || exit 1
strict=
[ "$mpi" != openmpi ] || strict=--enable-strictmpi
cd "$mpi" || exit 1
../mpich-source/test/mpi/configure --with-mpi="$folder/$mpi-prefix" --without-cuda --without-hip \
    --without-ze --disable-cxx --disable-fortran --disable-spawn --disable-rma --disable-part \
    --disable-romio --enable-threads=multiple --disable-perftest $strict >configure.log 2>&1 ||
    { echo "configure of MPICH's tests fails: $folder/$mpi/configure.log"; exit 1; }
flags='CFLAGS=-std=gnu99 -O1 -w'
{ make -C util "$flags" && make -C dtpools "$flags" && { make -k -C coll "$flags" || :; }; } \
    >make.log 2>&1 || { echo "make of MPICH's tests fails: $folder/$mpi/make.log"; exit 1; }
touch complete
