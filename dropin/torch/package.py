# SPDX-License-Identifier: Apache-2.0
"""Builds the Python package (PEP 517): libwring.so by meson, beside the Python sources, in one wheel.

The wheel is for any Python 3, as no file of it is compiled for one: ctypes calls the library, and
what torch needs in C++ is compiled for the torch at hand when it is first used. Its tag names this
machine's platform. A wheel for others carries the libraries that libwring.so needs, too:

    pip wheel --no-deps --config-settings repair=yes .

asks auditwheel (which needs patchelf) for that, and for the manylinux tag that fits.
"""
import base64
import csv
import glob
import hashlib
import io
import os
import pathlib
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

try:
    import tomllib
except ImportError:
    import tomli as tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-wheel"
SOURCES = ("*.py", "*.cpp", "*.hpp", "*.h")  # of the package
ROOMS = ("base", "compress", "transport", "offload", "runtime")  # whose headers are public
OPTIONS = ("-Ddefault_library=shared", "-Ddemo=disabled")


def project():
    with open(ROOT / "pyproject.toml", "rb") as file:
        told = tomllib.load(file)["project"]
    text = (ROOT / "meson.build").read_text(encoding="utf-8")
    version = re.search(r"version: '([^']+)'", text).group(1)
    if version != told["version"]:
        raise SystemExit(f"pyproject.toml has version {told['version']}, meson.build {version}")
    return told


def run(*command):
    subprocess.run([str(word) for word in command], check=True, cwd=ROOT, stdin=subprocess.DEVNULL)


def compile_library(version):
    """@return {name in the wheel: path} of what meson makes"""
    if not (BUILD / "build.ninja").exists():
        run("meson", "setup", BUILD, *OPTIONS)
    library = f"runtime/libwring.so.{version}"
    run("ninja", "-C", BUILD, library, "tools/wring")
    stripped = {"wring/libwring.so": BUILD / "package" / "libwring.so",
                f"wring-{version}.data/scripts/wring": BUILD / "package" / "wring"}
    (BUILD / "package").mkdir(exist_ok=True)
    for made, target in zip((library, "tools/wring"), stripped.values()):
        run("strip", "--strip-unneeded", "-o", target, BUILD / made)
    return stripped


def python_files():
    folder = ROOT / "dropin" / "torch" / "wring"
    for pattern in SOURCES:
        for path in sorted(folder.rglob(pattern)):
            yield path.relative_to(folder.parent).as_posix(), path
    for room in ROOMS:
        for path in sorted((ROOT / room / "include" / "wring").glob("*.h")):
            yield f"wring/include/wring/{path.name}", path


def metadata(told):
    readme = (ROOT / told["readme"]).read_text(encoding="utf-8")
    return (f"Metadata-Version: 2.1\nName: {told['name']}\nVersion: {told['version']}\n"
            f"Summary: {told['description']}\nLicense: {told['license']}\n"
            f"Requires-Python: {told['requires-python']}\n"
            f"Description-Content-Type: text/markdown\n\n{readme}")


def entry_points(told):
    lines = []
    for group, entries in told["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    return "\n".join(lines)


def tag():
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


def wheel_text():
    return f"Wheel-Version: 1.0\nGenerator: wring\nRoot-Is-Purelib: false\nTag: {tag()}\n"


def about_files(told):
    """@return [(name in the dist-info folder, bytes)]"""
    return [("METADATA", metadata(told).encode()), ("WHEEL", wheel_text().encode()),
            ("entry_points.txt", entry_points(told).encode()),
            ("LICENSE", (ROOT / "LICENSE").read_bytes())]


def add(archive, record, name, data, mode=0o644):
    info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same bytes each time
    info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
    archive.writestr(info, data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record.append((name, f"sha256={digest}", len(data)))


def repair(path, folder):
    """Ask auditwheel. @return the name of the wheel that it made instead"""
    with tempfile.TemporaryDirectory() as made:
        run(sys.executable, "-m", "auditwheel", "repair", "-w", made, path)
        found, = glob.glob(os.path.join(made, "*.whl"))
        name = os.path.basename(found)
        os.unlink(path)
        os.replace(found, os.path.join(folder, name))
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if platform.system() != "Linux":
        raise SystemExit("wring runs on Linux only")
    told = project()
    version, record = told["version"], []
    made = compile_library(version)
    name = f"wring-{version}-{tag()}.whl"
    path = os.path.join(wheel_directory, name)
    about = f"wring-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, source in [*python_files(), *made.items()]:
            add(archive, record, inside, source.read_bytes(), 0o755 if inside in made else 0o644)
        for inside, data in about_files(told):
            add(archive, record, f"{about}/{inside}", data)
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([*record, (f"{about}/RECORD", "", "")])
        add(archive, [], f"{about}/RECORD", lines.getvalue().encode())
    if (config_settings or {}).get("repair") == "yes":
        name = repair(path, wheel_directory)
    return name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without it pip would build all just to read the name."""
    told = project()
    folder = pathlib.Path(metadata_directory, f"wring-{told['version']}.dist-info")
    folder.mkdir()
    for inside, data in about_files(told):
        (folder / inside).write_bytes(data)
    return folder.name


def get_requires_for_build_wheel(config_settings=None):
    wanted = (config_settings or {}).get("repair") == "yes"
    return ["auditwheel", "patchelf"] if wanted else []


def build_sdist(sdist_directory, config_settings=None):
    told = project()
    base = f"wring-{told['version']}"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True,
                             capture_output=True).stdout.decode().split("\0")
    with tarfile.open(os.path.join(sdist_directory, f"{base}.tar.gz"), "w:gz") as archive:
        for name in filter(None, tracked):
            archive.add(ROOT / name, f"{base}/{name}", recursive=False)
        text = metadata(told).encode()
        info = tarfile.TarInfo(f"{base}/PKG-INFO")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return f"{base}.tar.gz"
