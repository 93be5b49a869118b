# SPDX-License-Identifier: Apache-2.0
"""The process group in C++: compiled for the torch at hand when it is first used, and kept.

c10d has no stable ABI, so that each version of torch needs a build of its own. It lies in
WRING_TORCH_CACHE, by default ~/.cache/wring, in a folder whose name says what it was made of.
Ranks of one host wait for the first one to compile.
"""
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sysconfig
import threading

from .. import __version__, api

NAME = "wring_torch_native"
FOLDER = pathlib.Path(__file__).resolve().parent
SOURCES = ("backend.cpp", "backend.hpp", "completer.hpp", "session.hpp", "tensors.hpp", "work.hpp")
COMPILE_SECONDS = 900
SWITCHED_OFF = "WRING_TORCH_NATIVE=off"

_lock = threading.Lock()
_loaded = None  # (module or None, reason)


class Unavailable(Exception):
    """There can be no process group in C++ here; the text says why, and what helps."""


def _include_folders():
    """Where wring's headers are: in the package, or in the tree that WRING_INCLUDE names."""
    given = os.environ.get("WRING_INCLUDE", "")
    folders = given.split(":") if given else [api.include_folder()]
    for folder in filter(None, folders):
        if (pathlib.Path(folder) / "wring" / "wring.h").exists():
            return list(filter(None, folders))
    raise Unavailable("the headers of wring are missing: install the package wring anew, or set "
                      "WRING_INCLUDE to the folders that have them")


def _compiler():
    words = os.environ.get("CXX", "").split() or ["c++"]
    if words == ["c++"] and shutil.which("c++") is None:
        words = ["g++"]
    if shutil.which(words[0]) is None:
        raise Unavailable(f"there is no C++ compiler {words[0]}: install one (Debian: g++), or name "
                          "it in CXX")
    return words


def _python_folder():
    folder = sysconfig.get_paths()["include"]
    if not (pathlib.Path(folder) / "Python.h").exists():
        raise Unavailable(f"there is no {folder}/Python.h: install the headers of Python (Debian: "
                          "python3-dev)")
    return folder


def _command(target):
    """@return the words that compile the module"""
    import torch
    home = pathlib.Path(torch.__file__).parent
    headers = [home / "include", home / "include" / "torch" / "csrc" / "api" / "include"]
    words = [*_compiler(), "-std=c++20", "-O2", "-fPIC", "-shared", "-D_GNU_SOURCE",
             "-DTORCH_API_INCLUDE_EXTENSION_H", f"-DTORCH_EXTENSION_NAME={NAME}",
             f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    for folder in [*headers, _python_folder(), *_include_folders()]:
        words += ["-isystem", str(folder)]
    library = os.path.realpath(api.path())
    return [*words, str(FOLDER / "backend.cpp"), "-o", str(target), f"-L{home / 'lib'}",
            f"-Wl,-rpath,{home / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", library,
            f"-Wl,-rpath,{os.path.dirname(library)}"]


def _cache_folder():
    """A folder of its own for each torch, Python, wring and place of libwring.so."""
    import torch
    content = hashlib.sha256()
    for name in SOURCES:
        content.update((FOLDER / name).read_bytes())
    for text in (torch.__version__, sysconfig.get_config_var("SOABI"), __version__,
                 os.path.realpath(api.path())):
        content.update(f"{text}\0".encode())
    base = os.environ.get("WRING_TORCH_CACHE", "") or os.path.join(
        os.environ.get("XDG_CACHE_HOME", "") or os.path.expanduser("~/.cache"), "wring")
    return pathlib.Path(base) / f"torch-{torch.__version__}-{content.hexdigest()[:16]}"


@contextlib.contextmanager
def _locked(path):
    """Alone on this host; the system lets go of the lock even where its holder dies."""
    with open(path, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(folder, target):
    made = folder / f"{NAME}.{os.getpid()}.so"
    try:
        done = subprocess.run(_command(made), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, errors="replace", timeout=COMPILE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"the compiler took longer than {COMPILE_SECONDS} s") from None
    if done.returncode != 0:
        (folder / "compile.log").write_text(done.stderr)
        first = next((line for line in done.stderr.splitlines() if "error" in line),
                     f"exit status {done.returncode}")
        raise Unavailable(f"the compiler failed: {first} ({folder}/compile.log has all of it)")
    os.replace(made, target)


def _load():
    folder = _cache_folder()
    target = folder / f"{NAME}.so"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not target.exists():
                _compile(folder, target)
    except OSError as error:
        raise Unavailable(f"{folder}: {error.strerror}: set WRING_TORCH_CACHE to a folder that can "
                          "be written to") from None
    spec = importlib.util.spec_from_file_location(NAME, target)
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise Unavailable(f"{target} cannot be loaded ({error}): remove it") from None
    return module


def load():
    """@return (the module, "") or (None, why there is none)"""
    global _loaded
    with _lock:
        if _loaded is None:
            if os.environ.get("WRING_TORCH_NATIVE", "").lower() == "off":
                _loaded = None, SWITCHED_OFF
            else:
                try:
                    _loaded = _load(), ""
                except Unavailable as reason:
                    _loaded = None, str(reason)
        return _loaded
