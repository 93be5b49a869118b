#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `meson install` gives: test_install.py MESON BUILD SOURCE PREFIX LIBDIR LIBRARIES CC...

Installs into a folder of its own, and uses nothing but what lies there: programs find headers and
library through pkg-config, ranks are started by the installed tool.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

MESON, BUILD, SOURCE, PREFIX, LIBDIR, LIBRARIES = sys.argv[1:7]
CC = sys.argv[7:]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SYSTEM = ("libjansson.", "libcrypto.", "libhwloc.", "libc.", "libm.", "libdl.", "libpthread.",
          "ld-linux")

sys.path.insert(0, os.path.join(SOURCE, "docs", "man"))
import public_headers  # noqa: E402  (how the man pages read them)

CXX_PROGRAM = """
%s
const void *const functions[] = {%s};
int main()
{
    wring_session_params params{};
    wring_session *session;
    if (wring_session_open(&params, &session) != WRING_OK)
        return 1;
    bool both = wring_session_size(session) == 2;
    bool met = wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK;
    wring_session_close(session);
    return both && met && functions[0] != nullptr ? 0 : 1;
}
"""


def run(*command, **extra):
    """@return standard output of a command that succeeds, free of any launcher's variables"""
    foreign = ("WRING_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "MESON_")
    bare = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    result = subprocess.run([str(word) for word in command], env={**bare, **extra}, text=True,
                            stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    if result.returncode != 0:
        raise AssertionError(f"{command} exits with {result.returncode}\n{result.stdout}"
                             f"{result.stderr}")
    return result.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="wring-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.root = cls.folder / "root"
        run(MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", cls.root)
        cls.prefix = cls.root / PREFIX.lstrip("/")
        cls.lib = cls.prefix / LIBDIR
        cls.tool = cls.prefix / "bin" / "wring"
        cls.headers = sorted((cls.prefix / "include" / "wring").glob("*.h"))
        cls.declared = {function.name for header in public_headers.read_all(cls.headers)
                        for group in header.groups for function in group.functions}

    def need(self, kind):
        if LIBRARIES not in (kind, "both"):
            self.skipTest(f"-Ddefault_library={LIBRARIES}")

    def pkg_config(self, *arguments):
        return run("pkg-config", *arguments, "wring", PKG_CONFIG_SYSROOT_DIR=str(self.root),
                   PKG_CONFIG_LIBDIR=str(self.lib / "pkgconfig")).split()

    def run_ranks(self, ranks, program):
        return run(self.tool, "run", "-n", ranks, "--", program, LD_LIBRARY_PATH=str(self.lib))

    def has_demo(self):
        """False where a build without a BLAS library says so."""
        said = subprocess.run([self.tool, "demo", "--help"], text=True, capture_output=True).stderr
        return "not in this build" not in said

    # ---- what is there ---------------------------------------------------------------------

    def test_library_is_versioned(self):
        self.need("shared")
        dynamic = run("readelf", "-d", self.lib / "libwring.so")
        soname = re.search(r"SONAME.*\[(.*)\]", dynamic).group(1)
        self.assertRegex(soname, r"^libwring\.so\.\d+$")
        version = run(self.tool, "--version").split()[1]
        self.assertEqual(os.readlink(self.lib / "libwring.so"), soname)
        self.assertEqual((self.lib / "libwring.so").resolve().name, f"libwring.so.{version}")

    def test_traces_are_there(self):
        traces = self.prefix / "share" / "wring" / "traces"
        shipped = pathlib.Path(SOURCE) / "planner" / "traces"
        self.assertEqual({path.name for path in traces.iterdir()},
                         {path.name for path in shipped.glob("*.json")})

    def test_gradients_are_there(self):
        shipped = pathlib.Path(SOURCE) / "tests" / "data" / "recorded.gradients"
        self.assertEqual((self.prefix / "share" / "wring" / shipped.name).read_bytes(),
                         shipped.read_bytes())

    def test_library_needs_only_its_dependencies(self):
        self.need("shared")
        dynamic = run("readelf", "-d", self.lib / "libwring.so")
        for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic):
            self.assertTrue(name.startswith(SYSTEM), name)
        self.assertNotRegex(dynamic, "RPATH|RUNPATH")

    def test_exports_what_headers_declare(self):
        self.need("shared")
        exported = {}
        for line in run("nm", "-D", "--defined-only", self.lib / "libwring.so").splitlines():
            _, kind, name = line.split()
            if kind != "A":  # the version's own name
                exported.update([name.split("@@")])
        self.assertGreater(len(self.declared), 30)
        self.assertEqual(sorted(exported), sorted(self.declared))
        soname = re.search(r"SONAME.*\.so\.(\d+)\]", run("readelf", "-d", self.lib / "libwring.so"))
        self.assertEqual(set(exported.values()), {f"WRING_{soname.group(1)}"})

    def test_all_public_headers_are_there(self):
        public = sorted(path.name for path in pathlib.Path(SOURCE).glob("*/include/wring/*.h"))
        self.assertEqual([path.name for path in self.headers], public)

    def test_man_pages_are_there(self):
        pages = {path.name for path in (self.prefix / "share/man").glob("man*/*")}
        for name in self.declared | {"wring"}:
            self.assertIn(f"{name}.3", pages)
        commands = re.findall(r"^  (\w+) +\w", run(self.tool, "--help").split("Commands:")[1], re.M)
        self.assertIn("run", commands)
        for command in commands:
            if command == "demo" and not self.has_demo():
                continue
            self.assertIn(f"wring-{command}.1", pages, "add it to docs/man/meson.build")
        self.assertLessEqual({"wring.1", "wring.7"}, pages)

    def test_nothing_speaks_of_the_build(self):
        for path in [*self.lib.glob("pkgconfig/*"), *(self.prefix / "share").rglob("*.[1-9]")]:
            text = path.read_text(encoding="utf-8")
            for place in (BUILD, SOURCE, str(self.root)):
                self.assertNotIn(place, text, path)

    # ---- using it --------------------------------------------------------------------------

    def test_versions_agree(self):
        release = self.pkg_config("--modversion")[0]
        self.assertEqual(run(self.tool, "--version"), f"wring {release}\n")

    def test_example_with_the_shared_library(self):
        self.need("shared")
        program = self.folder / "shared"
        run(*CC, "-std=c17", *STRICT, f"{SOURCE}/docs/examples/allreduce.c",
            *self.pkg_config("--cflags", "--libs"), "-o", program)
        self.assertRegex(run("readelf", "-d", program), r"NEEDED.*libwring\.so\.\d+")
        self.run_ranks(2, program)

    def test_example_with_the_static_library(self):
        self.need("static")
        program = self.folder / "static"
        flags = self.pkg_config("--static", "--cflags", "--libs")
        self.assertIn("-lwring", flags)
        run(*CC, "-std=c17", *STRICT, f"{SOURCE}/docs/examples/allreduce.c",
            *("-l:libwring.a" if flag == "-lwring" else flag for flag in flags), "-o", program)
        self.assertNotIn("libwring", run("readelf", "-d", program))
        self.run_ranks(2, program)

    def test_commands_of_the_readme(self):
        """What a newcomer types after installing, word for word; the compiler is the build's."""
        self.need("shared")
        readme = pathlib.Path(SOURCE, "README.md").read_text(encoding="utf-8")
        compiling = re.search(r"^    cc (program\.c .*)$", readme, re.M).group(1)
        starting = re.search(r"^    (wring run .*\./program)$", readme, re.M).group(1)
        shutil.copy(f"{SOURCE}/docs/examples/allreduce.c", self.folder / "program.c")
        run("sh", "-e", "-c", f'cd "$0"; "$@" {compiling}; {starting}', self.folder, *CC,
            PATH=f"{self.tool.parent}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(self.lib),
            PKG_CONFIG_SYSROOT_DIR=str(self.root), PKG_CONFIG_LIBDIR=str(self.lib / "pkgconfig"))

    def test_numbers_of_versions_md(self):
        table = pathlib.Path(SOURCE, "docs/versions.md").read_text(encoding="utf-8")
        said = dict(re.findall(r"^\| (release|ABI|wire) \| (\S+) \|", table, re.M))
        release = self.pkg_config("--modversion")[0]
        build = pathlib.Path(SOURCE, "meson.build").read_text(encoding="utf-8")
        auth = pathlib.Path(SOURCE, "transport/auth.h").read_text(encoding="utf-8")
        self.assertEqual(said, {
            "release": release,
            "ABI": re.search(r"^abi_version = '(\d+)'", build, re.M).group(1),
            "wire": re.search(r"^#define WRING_WIRE_VERSION (\d+)", auth, re.M).group(1)})

    def test_a_program_in_cxx(self):
        """It takes the address of every function, and calls some."""
        self.need("shared")
        compiler = shutil.which("g++") or shutil.which("clang++")
        if compiler is None:
            self.skipTest("neither g++ nor clang++ is here")
        source, program = self.folder / "program.cc", self.folder / "cxx"
        includes = "\n".join(f"#include <wring/{path.name}>" for path in self.headers)
        functions = ", ".join(f"reinterpret_cast<const void *>({f})" for f in self.declared)
        source.write_text(CXX_PROGRAM % (includes, functions))
        run(compiler, "-std=c++17", *STRICT, source, *self.pkg_config("--cflags", "--libs"),
            "-o", program)
        self.run_ranks(2, program)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + ["-v"])
