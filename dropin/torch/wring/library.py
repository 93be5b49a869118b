# SPDX-License-Identifier: Apache-2.0
"""Finds libwring.so, and says in one line what helps where it is missing or another version."""
import ctypes
import ctypes.util
import os
import pathlib
import threading

from . import abi

FOLDER = pathlib.Path(__file__).resolve().parent
REMEDY = ("install the package wring anew, or set WRING_LIBRARY to the libwring.so that was built "
          "with it (build/runtime/libwring.so)")


def find_path():
    """@return where libwring.so is: WRING_LIBRARY, the package's own folder, the system's place"""
    given = os.environ.get("WRING_LIBRARY", "")
    if given:
        if not os.path.exists(given):
            raise ImportError(f"WRING_LIBRARY={given}: there is no such file: {REMEDY}")
        return given
    own = sorted(FOLDER.glob("libwring.so*"))
    if own:
        return str(own[0])
    system = ctypes.util.find_library("wring")
    if system is None:
        raise ImportError(f"no libwring.so in {FOLDER} or where the system looks: {REMEDY}")
    return system


def check_version(loaded, path):
    """Other versions have functions of the same names that take other things."""
    lookup = ctypes.CDLL(None).dlvsym
    lookup.argtypes, lookup.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p], \
        ctypes.c_void_p
    for name, _, _ in abi.FUNCTIONS:
        if not lookup(loaded._handle, name.encode(), abi.VERSION):
            raise ImportError(f"{path} has no {name}() of version {abi.VERSION.decode()}, which "
                              f"this package was made for: {REMEDY}")


def open_library():
    """@return (the library with its functions' types set, its path)"""
    path = find_path()
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{path} cannot be loaded ({error}): {REMEDY}") from None
    check_version(loaded, path)
    for name, result, arguments in abi.FUNCTIONS:
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded, path


_lock = threading.Lock()
_opened = None


def library():
    """The library, loaded at the first call."""
    global _opened
    if _opened is None:
        with _lock:
            if _opened is None:
                _opened = open_library()
    return _opened[0]


def path():
    """Where the library was loaded from, for what links to the same one."""
    library()
    return _opened[1]


def include_folder():
    """The folder that has wring/wring.h, for what is compiled at run time; None: not installed."""
    folder = FOLDER / "include"
    return str(folder) if (folder / "wring" / "wring.h").exists() else None
