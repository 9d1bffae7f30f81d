#!/usr/bin/env python3
"""The installed CMake package, as somebody uses it who has only that: the commands of
docs/library.md are run, with the installation moved after the first of them.

    test_package.py --root PROJECT --build build/release [--generator Ninja] [--compiler c++]
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

OPTIONS = None
POLICY = None  # the file that the first example has trained
HOME = None  # of the reader of the page; it was elsewhere when he installed
OUTPUT = {}  # of the example programs
TIMEOUT_S = 300

PAGE = "docs/library.md"
# Files that the page must show whole, each in a block of its own.
SHOWN = ["examples/thermostat/thermostat.h", "examples/thermostat/main.cpp",
         "examples/thermostat/CMakeLists.txt", "examples/act/main.cpp", "examples/inference/main.cpp",
         "examples/inference/CMakeLists.txt"]
THERMOSTAT_LINES = 65  # at most, of the environment and the program together
ACT_LINES = 40
LARGEST_OBJECT = 100_000  # bytes of code and data of the light runtime

PLUGIN = "libflotilla_torch.so"
LEFT_OUT = {"python", "fused", "torch"}  # folders whose headers are not installed
OTHERS = re.compile(r"/(nlohmann|CLI|yaml-cpp|fmt|spdlog|torch)/")


def read(name):
    return (OPTIONS.root / name).read_text(encoding="utf-8")


def blocks(info):
    """The blocks of the page with such an info string."""
    return re.findall(rf"^```(?:{info})\n(.*?)^```$", read(PAGE), re.MULTILINE | re.DOTALL)


def run(*command, home=None, **more):
    """Runs a command and gives its stdout."""
    home = home or HOME
    environment = dict(os.environ, HOME=str(home), CXX=OPTIONS.compiler,
                       CMAKE_GENERATOR=OPTIONS.generator, **more)
    for name in ("DESTDIR", "LD_LIBRARY_PATH"):
        environment.pop(name, None)
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                            timeout=TIMEOUT_S, cwd=home, env=environment)
    if result.returncode != 0:
        raise AssertionError(f"status {result.returncode} of {command[-1]}\n"
                             f"{result.stdout}\n{result.stderr}")
    return result.stdout


def run_page(block, **more):
    """Runs a shell block of the page in the project's root, with the build directory at hand."""
    script = block.replace("./flotilla build\n", "")
    script = script.replace("build/release", shlex.quote(str(OPTIONS.build)))
    return run("bash", "-euo", "pipefail", "-c", f"cd {shlex.quote(str(OPTIONS.root))}\n{script}",
               **more)


def setUpModule():
    global HOME, POLICY
    directory = tempfile.TemporaryDirectory(prefix="flotilla-package-")
    unittest.addModuleCleanup(directory.cleanup)
    first, HOME = Path(directory.name) / "first", Path(directory.name) / "second"
    first.mkdir()
    install, train, act, infer = blocks("sh no-run")
    run_page(install, home=first)
    first.rename(HOME)
    OUTPUT["train"] = run_page(train)
    policy = re.search(r"^policy (.*)$", OUTPUT["train"], re.MULTILINE)[1]
    POLICY = HOME / "thermostat" / policy
    OUTPUT["act"] = run_page(act, POLICY=str(POLICY))
    OUTPUT["infer"] = run_page(infer, POLICY=str(POLICY))


def degrees(pattern, output):
    return float(re.search(rf"^{pattern} ([0-9.]+) degrees$", output, re.MULTILINE)[1])


class Page(unittest.TestCase):
    def test_blocks_are_the_files(self):
        shown = blocks("cpp|cmake")
        for name in SHOWN:
            with self.subTest(file=name):
                self.assertIn(read(name), shown)
        self.assertEqual(len(shown), len(SHOWN), "a block that is none of the files")

    def test_examples_are_short(self):
        def lines(name):
            return sum(1 for line in read(name).splitlines() if line.strip())
        self.assertLessEqual(lines(SHOWN[0]) + lines(SHOWN[1]), THERMOSTAT_LINES)
        self.assertLessEqual(lines("examples/act/main.cpp"), ACT_LINES)


class Installed(unittest.TestCase):
    def test_headers_are_those_of_the_layers(self):
        include = HOME / "flotilla" / "include"
        installed = {str(path.relative_to(include)) for path in include.rglob("*") if
                     path.is_file()}
        layers = {"flotilla/" + str(path.relative_to(OPTIONS.root / "src"))
                  for path in (OPTIONS.root / "src").glob("*/**/*.h")
                  if not LEFT_OUT & set(path.parts)}
        self.assertEqual(installed, layers | {"flotilla/flotilla.h"})

    def included(self, source):
        """The files that a source file includes, when only the installed headers are there."""
        file = HOME / "includes.cpp"
        file.write_text(source)
        rule = run(OPTIONS.compiler, "-std=c++20", "-M", "-I", HOME / "flotilla/include", file)
        return rule.replace("\\\n", " ").split()[1:]

    def test_every_header_finds_what_it_includes(self):
        include = HOME / "flotilla" / "include"
        self.included("".join(f'#include "{path.relative_to(include)}"\n'
                              for path in sorted(include.rglob("*.h"))))

    def test_the_public_header_forces_no_other_library_on_its_user(self):
        files = self.included('#include "flotilla/flotilla.h"\n')
        self.assertIn(str(HOME / "flotilla/include/flotilla/train/run.h"), files)
        self.assertEqual([file for file in files if OTHERS.search(file)], [])

    def package_files(self):
        return sorted((HOME / "flotilla").rglob("cmake/flotilla/*.cmake"))

    def lines_with(self, *texts):
        """Lines of the package's files that have one of the texts in them."""
        return [line for file in self.package_files() for line in file.read_text().splitlines()
                if any(text in line for text in texts)]

    def test_package_has_its_files(self):
        self.assertEqual({file.name for file in self.package_files()},
                         {"flotillaConfig.cmake", "flotillaConfigVersion.cmake",
                          "flotillaTargets.cmake", f"flotillaTargets-{OPTIONS.config}.cmake",
                          "flotillaInferenceTargets.cmake",
                          f"flotillaInferenceTargets-{OPTIONS.config}.cmake"})

    def test_package_names_no_folder_of_ours(self):
        places = OPTIONS.root, OPTIONS.build, HOME.parent
        self.assertEqual(self.lines_with(*map(str, places)), [])

    def test_package_asks_its_user_for_what_it_needs_and_no_more(self):
        options = self.lines_with("_COMPILE_OPTIONS", "_COMPILE_FEATURES", "_COMPILE_DEFINITIONS")
        self.assertEqual({option.strip() for option in options},
                         {'INTERFACE_COMPILE_FEATURES "cxx_std_20"',
                          'INTERFACE_COMPILE_OPTIONS "-ffp-contract=off"'})

    def test_the_program_is_there(self):
        self.assertIn("cartpole", run(HOME / "flotilla/bin/flotilla", "list"))

    def test_the_program_finds_its_files(self):
        shown = run(HOME / "flotilla/bin/flotilla", "bench", "oracle", "--num-envs", 1, "--seconds",
                    0.01, "--repeats", 1, "--json")
        self.assertTrue(json.loads(shown)["same_bits"])
        referee = HOME / "flotilla/share/flotilla/ortools_referee.py"
        self.assertTrue(referee.is_file() and not referee.is_symlink())


class Configuring(unittest.TestCase):
    """What find_package says to a project, which is only configured."""

    def configure(self, name, find, *arguments):
        source = HOME / name
        source.mkdir()
        (source / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.22)\nproject(mine LANGUAGES CXX)\n"
            f"find_package(flotilla {find})\n"
            'message(STATUS "found=${flotilla_FOUND} fmt=${fmt_FOUND}")\n')
        result = subprocess.run(
            ["cmake", "-S", source, "-B", source / "build", "-G", OPTIONS.generator,
             f"-DCMAKE_CXX_COMPILER={OPTIONS.compiler}", f"-DCMAKE_PREFIX_PATH={HOME}/flotilla",
             *arguments], capture_output=True, text=True, timeout=TIMEOUT_S,
            env={key: value for key, value in os.environ.items() if key != "CMAKE_BUILD_TYPE"})
        return result.stdout + result.stderr

    def test_a_project_without_a_build_type_is_warned(self):
        self.assertIn("no build type", self.configure("untyped", "REQUIRED"))

    def test_others_are_not(self):
        said = self.configure("typed", "REQUIRED", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
        self.assertNotIn("Warning", said)
        self.assertIn("fmt=1", said)
        self.assertNotIn("Warning", self.configure("flags", "REQUIRED", "-DCMAKE_CXX_FLAGS=-O2"))

    def test_the_runtime_alone_needs_no_other_package(self):
        said = self.configure("alone", "REQUIRED COMPONENTS inference",
                              "-DCMAKE_BUILD_TYPE=Release")
        self.assertRegex(said, r"found=(1|TRUE) fmt=\n")

    def test_an_unknown_component_is_named(self):
        said = self.configure("unknown", "REQUIRED COMPONENTS training",
                              "-DCMAKE_BUILD_TYPE=Release")
        self.assertIn("flotilla has no component 'training'", said)


class LightRuntime(unittest.TestCase):
    def test_acts_by_the_policy(self):
        self.assertEqual(OUTPUT["infer"].splitlines()[-1], "1")

    def test_two_copied_files_are_all_it_takes(self):
        copy = HOME / "copied"
        copy.mkdir()
        for name in ("inference.h", "inference.cpp"):
            (copy / name).write_bytes((HOME / "flotilla/share/flotilla/inference" / name)
                                      .read_bytes())
        main = read("examples/inference/main.cpp")
        (copy / "main.cpp").write_text(main.replace("flotilla/inference/inference.h",
                                                    "inference.h"))
        run("sh", "-c", f"cd {copy} && {OPTIONS.compiler} -std=c++20 -O2 -Wall -Wextra -Werror "
            "main.cpp inference.cpp -o infer")
        shown = run("sh", "-c", f"printf '%s\\n' '-2 0 -1' '2 0 1' | {copy}/infer {POLICY}")
        self.assertEqual(shown, "1\n0\n")

    def test_is_small(self):
        if shutil.which("size") is None:
            self.skipTest("no size of binutils")
        if OPTIONS.config == "debug":
            self.skipTest("not an optimised build")
        library, = (HOME / "flotilla").rglob("libflotilla_inference.a")
        text, data, bss = map(int, run("size", library).splitlines()[1].split()[:3])
        self.assertLess(text + data + bss, LARGEST_OBJECT)

    def test_needs_the_standard_library_alone(self):
        file = HOME / "flotilla/share/flotilla/inference/inference.cpp"
        includes = set(re.findall(r"#include (.*)", file.read_text()))
        self.assertEqual({name for name in includes if name.startswith('"')},
                         {'"inference.h"', '"inference.cpp"'})


class Examples(unittest.TestCase):
    def train(self, program, env, name, *arguments):
        out = HOME / name
        return json.loads(run(program, "train", env, "--steps", "20000", "--json", "--out", out,
                              *arguments))

    def test_thermostat_learns(self):
        self.assertLess(degrees("off by", OUTPUT["train"]), 0.25)

    def test_policy_acts_better_than_the_rule(self):
        self.assertAlmostEqual(degrees("by the usual rule", OUTPUT["act"]), 0.45, delta=0.02)
        self.assertLess(degrees("off by", OUTPUT["act"]), 0.35)

    def test_result_does_not_depend_on_the_back_end(self):
        program = HOME / "thermostat/thermostat"
        serial = self.train(program, "thermostat", "serial", "--backend", "serial")
        processes = self.train(program, "thermostat", "processes", "--backend", "processes",
                               "--workers", "2")
        self.assertEqual(processes["backend"], "processes")
        self.assertEqual(serial["params_sha256"], processes["params_sha256"])

    def test_environment_conforms(self):
        shown = run(HOME / "thermostat/thermostat", "check", "thermostat")
        self.assertNotIn("FAIL", shown)
        # The program finds what counts them in the package.
        self.assertRegex(shown, r"(?m)^ok   no allocation  none in \d+ steps")

    def test_plugin_is_found(self):
        if not list((HOME / "flotilla").rglob(PLUGIN)):
            self.skipTest("this build has no libtorch")
        for program, env in (("flotilla/bin/flotilla", "cartpole"),
                             ("thermostat/thermostat", "thermostat")):
            with self.subTest(program=program):
                summary = self.train(HOME / program, env, f"torch-{env}", "--policy", "torch")
                self.assertEqual(summary["policy"], "torch")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--config", default="release", help="the build's, in small letters")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--compiler", default="c++")
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.root, OPTIONS.build = OPTIONS.root.resolve(), OPTIONS.build.resolve()
    unittest.main(argv=[sys.argv[0], *rest])
