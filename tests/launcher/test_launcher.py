#!/usr/bin/env python3
"""Tests of the launcher script against stub programs: nothing is installed, built or downloaded.

Each test gets a copy of the launcher in a temporary project, and a PATH of one folder that holds
links to the usual small tools and stubs for everything the launcher drives. A stub notes its call
in calls.txt; files under state/ steer it.
"""

import os
import pty
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parents[2] / "flotilla"

TOOLS = """awk bash cat chmod cp cut df dirname env find flock grep head mkdir nproc printf readlink
           rm rmdir sed setarch sleep sort tail tee touch tr true uname xargs""".split()

HEADERS = {
    "CLI/CLI.hpp": "libcli11-dev",
    "fmt/core.h": "libfmt-dev",
    "spdlog/spdlog.h": "libspdlog-dev",
    "yaml-cpp/yaml.h": "libyaml-cpp-dev",
    "nlohmann/json.hpp": "nlohmann-json3-dev",
    "zlib.h": "zlib1g-dev",
    "gtest/gtest.h": "libgtest-dev",
}

TORCH_HEADER = "torch/csrc/api/include/torch/version.h"
TORCH_PACKAGES = "libtorch-dev libgloo-dev libopenblas0-pthread"
CLANG_PACKAGES = "clang-16 libclang-rt-16-dev llvm-16"
WITH_CLANG = "-DCMAKE_CXX_COMPILER=clang++-16"

STUBS = {
    "id": 'cat "$STATE/uid"',
    # Knows a header when it lies in state/include; answers the launcher's one probe.
    "g++": r"""
        while read -r line; do
          [[ $line == '#if'* ]] || continue
          header=${line#*<}; read -r package
          [[ -e $STATE/include/${header%>*} ]] || echo "$package"
        done""",
    # "Installs" everything there is.
    "apt-get": r"""
        echo "DEBIAN_FRONTEND=$DEBIAN_FRONTEND" >>"$STATE/apt_env"
        [[ $* == *install* ]] || exit 0
        [[ ! -e $STATE/apt_fails ]] || { echo "E: no such package"; exit 100; }
        cp "$STATE"/spare/* "$STUB_BIN"
        cp -r "$STATE/all_headers/." "$STATE/include" """,
    "cmake": r"""
        [[ $1 == --preset ]] || exit 0
        [[ ! -e $STATE/cmake_fails ]] || { echo "CMake Error: stub"; exit 1; }
        mkdir -p "build/$2"; touch "build/$2/build.ninja" "build/$2/CMakeCache.txt" """,
    "ninja": r"""
        trap 'exit 130' INT  # also between two commands, where the shell would go on
        sleeps=$(cat "$STATE/ninja_sleeps" 2>&- || true)
        mkdir "$STATE/busy" || touch "$STATE/overlap"
        # In the background: a shell that is about to start a program looks at the signal behind it.
        [[ -z $sleeps ]] || { sleep "$sleeps" </dev/null >/dev/null 2>&1 & wait $!; }
        while [[ -e $STATE/ninja_waits ]]; do sleep 0.02; done
        rmdir "$STATE/busy"
        if [[ -e $STATE/ninja_fails ]]; then
          for ((i = 1; i <= 100; i++)); do echo "output line $i."; done
          exit 1
        fi
        [[ ! -e $STATE/ninja_works ]] || printf '[1/2] one\n[2/2] two\n'
        cp "$STATE/binary" "$2/flotilla" """,
    "ctest": r"""
        if [[ $* == *-N* ]]; then
          if [[ $* == *nothing* ]]; then echo 'Total Tests: 0'; else echo 'Total Tests: 3'; fi
          exit 0
        fi
        echo "python=${FLOTILLA_TEST_PYTHON:-none}"
        echo "tsan=${TSAN_OPTIONS:-}"
        [[ ! -e $STATE/ctest_fails ]] || exit 8""",
    "python3": r"""
        [[ ! -e $STATE/python_broken ]] || { echo 'pyenv: version not installed' >&2; exit 127; }
        [[ $2 != venv ]] || { mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; }
        [[ $2 != pip || ! -e $STATE/pip_fails ]] || exit 1""",
    "clang-format": r"""
        [[ $* == *--dry-run* ]] || exit 0
        echo 'src/ugly.cpp:1:4: error: code should be clang-formatted [-Wclang-format-violations]'
        echo 'src/ugly.cpp:2:4: error: code should be clang-formatted [-Wclang-format-violations]'
        exit 1""",
    "ccache": "",
    "clang++-16": "",
}

BINARY = r"""#!/usr/bin/env bash
echo "cwd=$PWD"
for a in "$@"; do printf '<%s>\n' "$a"; done
if [[ ${1:-} == read ]]; then cat; fi
if [[ ${1:-} == status ]]; then exit "$2"; fi
"""


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


class LauncherTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="flotilla-launcher-")
        self.addCleanup(scratch.cleanup)
        self.dir = Path(scratch.name).resolve()
        self.project = self.dir / "the project"  # the space is on purpose
        self.bin = self.dir / "bin"
        self.state = self.dir / "state"
        self.calls_file = self.dir / "calls.txt"
        for folder in (self.project, self.bin, self.state / "spare", self.state / "include"):
            folder.mkdir(parents=True)
        shutil.copy(LAUNCHER, self.project / "flotilla")
        (self.project / "CMakePresets.json").write_text("{}")
        (self.project / "CMakeLists.txt").write_text("project(flotilla VERSION 4.5.6)\n")
        self.set_commands("doctor", "list", "read", "status", "train", "x")
        write_program(self.state / "binary", BINARY)
        self.set_uid(1000)
        for tool in TOOLS:
            self.assertIsNotNone(shutil.which(tool), f"the tests need {tool}")
            (self.bin / tool).symlink_to(shutil.which(tool))
        for name in STUBS:
            self.add_stub(name)
        for header in (*HEADERS, TORCH_HEADER):
            for folder in ("include", "all_headers"):
                path = self.state / folder / header
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        self.env = {"PATH": str(self.bin), "STUB_BIN": str(self.bin), "STATE": str(self.state),
                    "CALLS": str(self.calls_file), "HOME": str(self.dir), "TERM": "dumb",
                    "LC_ALL": "C"}

    def add_stub(self, name, body=None, folder=None):
        text = f'#!/usr/bin/env bash\necho "{name} $*" >>"$CALLS"\n{body or STUBS[name]}\n'
        write_program((folder or self.bin) / name, text)

    def set_commands(self, *names):
        """The launcher looks for the names of commands in the sources."""
        (self.project / "src").mkdir(exist_ok=True)
        (self.project / "src/commands.txt").write_text("".join(f'"{name}"\n' for name in names))

    def set_uid(self, uid):
        (self.state / "uid").write_text(f"{uid}\n")

    def flag(self, name, text=""):
        (self.state / name).write_text(text)

    def take_away(self, *tools, headers=()):
        for tool in tools:
            (self.bin / tool).rename(self.state / "spare" / tool)
        for header in headers:
            (self.state / "include" / header).unlink()

    def run_launcher(self, *args, cwd=None, program=None, stdin="", before=(), **env):
        return subprocess.run([*before, str(program or self.project / "flotilla"), *args],
                              cwd=cwd or self.project, env={**self.env, **env}, input=stdin,
                              capture_output=True, text=True, timeout=15)

    def run_on_terminal(self, *args, answer=None, interrupt_when=None):
        """(exit status, what the terminal showed); types `answer`, or Ctrl-C once a file exists."""
        try:
            pid, terminal = pty.fork()
        except OSError as error:
            self.skipTest(f"this machine has no pseudo terminals: {error}")
        if pid == 0:
            os.chdir(self.project)
            os.execve("./flotilla", ["./flotilla", *args], {**self.env, "TERM": "xterm"})
        shown, deadline = b"", time.monotonic() + 15
        if interrupt_when:
            while not interrupt_when.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            os.write(terminal, b"\x03")
        while True:
            try:
                data = os.read(terminal, 4096)
            except OSError:  # EIO: the other side is closed
                break
            if not data:
                break
            shown += data
            if answer and b"[Y/n]" in shown:
                os.write(terminal, answer.encode() + b"\n")
                answer = None
        os.close(terminal)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()

    def calls(self, name):
        if not self.calls_file.exists():
            return []
        lines = self.calls_file.read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.split(" ")[0] == name]

    def assert_ran(self, result, *args):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout,
                         f"cwd={self.project}\n" + "".join(f"<{a}>\n" for a in args))


class Packages(LauncherTest):
    def assert_asked_to_install(self, result, command):
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stdout, "")
        lines = [line.strip() for line in result.stderr.splitlines() if "apt-get" in line]
        self.assertEqual(lines, [command])
        self.assertEqual(self.calls("apt-get"), [])
        self.assertEqual(self.calls("cmake"), [])

    def test_without_root_prints_one_command(self):
        self.take_away("ninja", "ccache", headers=["fmt/core.h"])
        self.assert_asked_to_install(
            self.run_launcher("list"),
            "apt-get install -y --no-install-recommends ninja-build libfmt-dev ccache")

    def test_sudo_that_wants_a_password_is_not_used(self):
        self.add_stub("sudo", "exit 1")
        self.take_away("cmake")
        self.assert_asked_to_install(
            self.run_launcher("list"), "sudo apt-get install -y --no-install-recommends cmake")
        self.assertEqual(self.calls("sudo"), ["-n true"])

    def test_without_a_compiler_all_headers_are_named(self):
        self.take_away("g++")
        self.assert_asked_to_install(
            self.run_launcher("list"), "apt-get install -y --no-install-recommends g++ "
            + " ".join(HEADERS.values()))

    def test_root_installs_and_goes_on(self):
        self.set_uid(0)
        self.take_away("ninja", headers=["CLI/CLI.hpp", "gtest/gtest.h"])
        result = self.run_launcher("list")
        self.assert_ran(result, "list")
        update, install = self.calls("apt-get")
        self.assertTrue(update.endswith("update"), update)
        self.assertTrue(install.startswith("install -y --no-install-recommends"), install)
        self.assertTrue(install.endswith(" ninja-build libcli11-dev libgtest-dev"), install)
        self.assertEqual((self.state / "apt_env").read_text(),
                         "DEBIAN_FRONTEND=noninteractive\n" * 2)
        self.assertLessEqual(len(result.stderr.splitlines()), 3)

    def test_sudo_without_a_password_installs(self):
        self.add_stub("sudo", 'shift; exec "$@"')
        self.take_away("ninja")
        self.assert_ran(self.run_launcher("list"), "list")
        self.assertEqual(len(self.calls("apt-get")), 2)

    def test_failed_install_shows_the_log(self):
        self.set_uid(0)
        self.flag("apt_fails")
        self.take_away("ninja")
        result = self.run_launcher("list")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("E: no such package", result.stderr)
        self.assertIn("build/launcher.log", result.stderr)

    def test_other_systems_are_told_the_packages(self):
        self.set_uid(0)
        self.take_away("apt-get", "ninja", headers=["yaml-cpp/yaml.h"])
        result = self.run_launcher("list")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("ninja-build libyaml-cpp-dev", result.stderr)

    def test_nothing_missing_installs_nothing(self):
        self.take_away("ccache")  # optional: no reason to install by itself
        self.assert_ran(self.run_launcher("list"), "list")
        self.assertEqual(self.calls("apt-get") + self.calls("id"), [])

    def test_root_installs_libtorch_too(self):
        self.set_uid(0)
        self.take_away(headers=[TORCH_HEADER])
        self.assert_ran(self.run_launcher("list"), "list")
        update, install = self.calls("apt-get")
        self.assertTrue(update.endswith("update"), update)
        self.assertTrue(install.endswith(" " + TORCH_PACKAGES), install)

    def test_libtorch_is_not_needed(self):
        self.take_away(headers=[TORCH_HEADER])
        result = self.run_launcher("list")  # not root
        self.assert_ran(result, "list")
        self.assertIn("without libtorch", result.stderr)
        self.assertEqual(self.calls("apt-get"), [])
        self.set_uid(0)
        self.flag("apt_fails")
        shutil.rmtree(self.project / "build")
        result = self.run_launcher("list")
        self.assert_ran(result, "list")
        self.assertIn("without libtorch", result.stderr)
        self.assertEqual(len(self.calls("apt-get")), 2)
        self.calls_file.unlink()
        self.assert_ran(self.run_launcher("list"), "list")  # does not try again
        self.assertEqual(self.calls("apt-get"), [])

    def test_libtorch_can_be_declined(self):
        self.set_uid(0)
        self.take_away(headers=[TORCH_HEADER])
        package = self.dir / "my libtorch/share/cmake/Torch/TorchConfig.cmake"
        package.parent.mkdir(parents=True)
        package.touch()
        for env in ({"FLOTILLA_NO_TORCH": "1"}, {"FLOTILLA_CMAKE_ARGS": "-DFLOTILLA_TORCH=OFF"},
                    {"CMAKE_PREFIX_PATH": f"/nowhere:{self.dir}/my libtorch"}):
            self.assert_ran(self.run_launcher("list", **env), "list")
            shutil.rmtree(self.project / "build")
        self.assertEqual(self.run_launcher("build", "--preset", "asan").returncode, 0)
        self.assertEqual(self.calls("apt-get"), [])

    def test_on_a_terminal_libtorch_is_offered(self):
        self.set_uid(0)
        self.take_away(headers=[TORCH_HEADER])
        status, shown = self.run_on_terminal("list", answer="n")
        self.assertEqual(status, 0, shown)
        self.assertIn("<list>", shown)
        self.assertEqual(self.calls("apt-get"), [])

    def test_on_a_terminal_no_means_no(self):
        self.set_uid(0)
        self.take_away("ninja")
        status, shown = self.run_on_terminal("list", answer="n")
        self.assertEqual(status, 2, shown)
        self.assertIn("apt-get install", shown)
        self.assertEqual(self.calls("apt-get"), [])

    def test_on_a_terminal_yes_means_yes(self):
        self.set_uid(0)
        self.take_away("ninja")
        status, shown = self.run_on_terminal("list", answer="y")
        self.assertEqual(status, 0, shown)
        self.assertIn("<list>", shown)
        self.assertEqual(len(self.calls("apt-get")), 2)

    def test_probe_asks_a_real_compiler_and_the_prefix_path(self):
        compiler = shutil.which("g++") or shutil.which("clang++")
        if not compiler:
            self.skipTest("no C++ compiler")
        (self.bin / "g++").unlink()
        self.add_stub("g++", f'exec "{compiler}" -nostdinc -isystem "$STATE" "$@"')
        result = self.run_launcher("list")
        self.assertEqual(result.returncode, 2)
        self.assertIn(" ".join(HEADERS.values()), result.stderr)
        (self.state / "all_headers").rename(self.dir / "include")
        self.assert_ran(self.run_launcher("list", CMAKE_PREFIX_PATH=f"/nowhere:{self.dir}"), "list")


class Running(LauncherTest):
    def test_arguments_arrive_as_they_are(self):
        arguments = ["train", "a b", "", "*", "$HOME", "'\"", "two\nlines", "--json", "key=a b"]
        self.assert_ran(self.run_launcher(*arguments), *arguments)

    def test_no_argument_goes_to_the_binary(self):
        self.run_launcher("list")
        self.assert_ran(self.run_launcher())

    def test_help_is_the_binarys_and_names_our_commands(self):
        self.run_launcher("list")
        for option in ("--help", "-h"):
            result = self.run_launcher(option)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(result.stdout.startswith(f"cwd={self.project}\n<{option}>\n"), result.stdout)
            self.assertIn("Commands of this script: build, test,", result.stdout)
        self.assert_ran(self.run_launcher("train", "--help"), "train", "--help")

    def test_status_and_stdin_are_the_binarys(self):
        self.assertEqual(self.run_launcher("status", "3").returncode, 3)
        self.assertTrue(self.run_launcher("read", stdin="typed").stdout.endswith("typed"))

    def test_through_links_from_another_directory(self):
        elsewhere = self.dir / "else where"
        elsewhere.mkdir()
        (elsewhere / "one").symlink_to(self.project / "flotilla")
        (elsewhere / "two").symlink_to("one")
        result = self.run_launcher("x", cwd=elsewhere, program="./two")
        self.assertEqual(result.stdout, f"cwd={elsewhere}\n<x>\n", result.stderr)
        self.assertEqual(sorted(os.listdir(elsewhere)), ["one", "two"])
        self.assertTrue((self.project / "build/release/flotilla").exists())

    def test_warm_run_only_asks_ninja(self):
        self.run_launcher("list")
        self.calls_file.unlink()
        result = self.run_launcher("list")
        self.assert_ran(result, "list")
        self.assertEqual(result.stderr, "")
        self.assertEqual([line.split()[0] for line in self.calls_file.read_text().splitlines()],
                         ["ninja"])

    def test_progress_is_short_and_on_stderr(self):
        self.flag("ninja_works")
        result = self.run_launcher("list")
        self.assert_ran(result, "list")
        self.assertEqual(result.stderr, "flotilla: configuring build/release\n"
                                        "flotilla: building build/release (2 steps)\n")

    def test_progress_on_a_terminal_is_cleared(self):
        self.flag("ninja_works")
        status, shown = self.run_on_terminal("list")
        self.assertEqual(status, 0)
        self.assertIn("\r\x1b[Kflotilla: building build/release 2/2\r\x1b[Kcwd=", shown)

    def test_failed_build_shows_the_end_of_the_log(self):
        self.flag("ninja_fails")
        result = self.run_launcher("list")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        shown = [line for line in result.stderr.splitlines() if line.startswith("output")]
        self.assertEqual(shown, [f"output line {i}." for i in range(71, 101)])
        log = self.project / "build/launcher.log"
        self.assertIn(str(log), result.stderr)
        self.assertIn("output line 1.", log.read_text())

    def test_failed_configure_hints_at_clean_only_with_an_old_cache(self):
        self.flag("cmake_fails")
        result = self.run_launcher("list")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("CMake Error: stub", result.stderr)
        self.assertNotIn("./flotilla clean", result.stderr)
        (self.project / "build/release").mkdir()
        (self.project / "build/release/CMakeCache.txt").touch()
        self.assertIn("./flotilla clean", self.run_launcher("list").stderr)

    def test_configures_again_when_the_arguments_change(self):
        self.run_launcher("list")
        self.run_launcher("list", FLOTILLA_CMAKE_ARGS='-DA=1 "-DB=2 3"')
        self.run_launcher("list", FLOTILLA_CMAKE_ARGS='-DA=1 "-DB=2 3"')
        self.assertEqual(self.calls("cmake"),
                         ["--preset release", "--preset release -DA=1 -DB=2 3"])

    def start(self, *args):
        return subprocess.Popen([self.project / "flotilla", *args], cwd=self.project, env=self.env,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def shown_to_who_waits(self, *args, kill=False):
        """(number of a launcher that builds, what one says that has to wait for it)"""
        self.flag("ninja_waits")
        first = self.start(*args)
        while not (self.state / "busy").exists():
            self.assertIsNone(first.poll())
            time.sleep(0.01)
        if kill:
            first.kill()
            first.wait()
        second = self.start("list")
        line = second.stderr.readline()  # it waits: there is no other one yet
        (self.state / "ninja_waits").unlink()
        for process in (first, second):
            process.communicate(timeout=15)
        self.assertEqual((first.returncode, second.returncode), (-9 if kill else 0, 0))
        return first.pid, line

    def test_who_waits_is_told_for_whom(self):
        pid, line = self.shown_to_who_waits("train", "a\x1bb")
        self.assertEqual(line, "flotilla: waiting for another build to finish: process "
                               f"{pid} ({self.project}/flotilla train a?b)\n")

    def test_who_waits_for_what_a_killed_launcher_left_is_told_so(self):
        pid, line = self.shown_to_who_waits("list", kill=True)
        self.assertEqual(line, "flotilla: waiting for another build to finish: what process "
                               f"{pid} ({self.project}/flotilla list) left behind\n")

    def test_two_at_once_take_turns(self):
        self.flag("ninja_sleeps", "0.3")
        running = [subprocess.Popen([self.project / "flotilla", "list"], cwd=self.project,
                                    env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                   for _ in range(3)]
        for process in running:
            self.assertIn(b"<list>", process.communicate(timeout=15)[0])
            self.assertEqual(process.returncode, 0)
        self.assertFalse((self.state / "overlap").exists())
        self.assertEqual(len(self.calls("cmake")), 1)

    def test_the_lock_is_not_held_while_the_binary_runs(self):
        write_program(self.state / "binary", "#!/usr/bin/env bash\ntouch \"$STATE/up\"; sleep 10\n")
        process = subprocess.Popen([self.project / "flotilla", "list"], cwd=self.project,
                                   env=self.env, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            while not (self.state / "up").exists():
                self.assertIsNone(process.poll())
                time.sleep(0.01)
            write_program(self.state / "binary", BINARY)
            self.assertNotIn("waiting", self.run_launcher("list").stderr)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def test_ctrl_c_stops(self):
        self.flag("ninja_sleeps", "10")
        start = time.monotonic()
        status, shown = self.run_on_terminal("list", interrupt_when=self.state / "busy")
        self.assertEqual(status, 130, shown)
        self.assertIn("interrupted", shown)
        self.assertNotIn("<list>", shown)
        self.assertLess(time.monotonic() - start, 5)

    def test_no_build_mode(self):
        write_program(self.dir / "other binary", BINARY)
        env = {"FLOTILLA_LAUNCHER_NO_BUILD": "1", "FLOTILLA_BINARY": str(self.dir / "other binary")}
        self.assert_ran(self.run_launcher("list", **env), "list")
        for verb in ("build", "test", "clean"):
            self.assertEqual(self.run_launcher(verb, **env).returncode, 2)
        self.assertEqual(self.run_launcher("list", FLOTILLA_LAUNCHER_NO_BUILD="1").returncode, 2)
        self.assertFalse(self.calls_file.exists())


class WithoutWriteAccess(LauncherTest):
    """Somebody else's checkout."""

    def setUp(self):
        super().setUp()
        self.before = ()
        if os.geteuid() == 0:
            if not shutil.which("setpriv"):
                self.skipTest("as root, this needs setpriv to become another user")
            self.before = (shutil.which("setpriv"), "--reuid=65534", "--regid=65534",
                           "--clear-groups")
            self.dir.chmod(0o755)

    def take_write_access(self):
        if os.geteuid() == 0:
            return
        for path in (self.project, self.project / "build"):
            path.chmod(0o555)
            self.addCleanup(path.chmod, 0o755)

    def test_what_is_built_runs(self):
        self.run_launcher("list")
        self.calls_file.unlink()
        self.take_write_access()
        result = self.run_launcher("list", before=self.before)
        self.assert_ran(result, "list")
        self.assertEqual(result.stderr, "")
        self.assertFalse(self.calls_file.exists())
        self.assertEqual(self.run_launcher("status", "3", before=self.before).returncode, 3)

    def test_an_old_binary_runs_with_a_word(self):
        self.run_launcher("list")
        os.utime(self.project / "build/release/flotilla", (1, 1))
        self.take_write_access()
        result = self.run_launcher("list", before=self.before)
        self.assert_ran(result, "list")
        self.assertIn("release/flotilla is older than ", result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_a_lock_of_somebody_else(self):
        self.run_launcher("list")
        (self.project / "build").chmod(0o777)
        (self.project / "build/.lock").chmod(0o444)
        self.assert_ran(self.run_launcher("list", before=self.before), "list")

    def test_nothing_built(self):
        (self.project / "build").mkdir()
        self.take_write_access()
        for verb in ("list", "build", "test"):
            result = self.run_launcher(verb, before=self.before)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(f"cannot write to {self.project}/build", result.stderr)


class WithoutBuild(LauncherTest):
    """Questions and slips start no installation and no build."""

    def setUp(self):
        super().setUp()
        self.set_uid(0)
        self.take_away("ninja", headers=["fmt/core.h"])

    def assert_nothing_done(self):
        self.assertFalse(self.calls_file.exists())
        self.assertFalse((self.project / "build").exists())

    def test_help_of_a_fresh_checkout(self):
        for args in (["--help"], ["-h"], ["train", "--help"], ["train", "x", "-h"]):
            result = self.run_launcher(*args)
            self.assertEqual((result.returncode, result.stderr), (0, ""), args)
            self.assertIn("usage: ./flotilla COMMAND", result.stdout)
        self.assert_nothing_done()

    def test_version_of_a_fresh_checkout(self):
        result = self.run_launcher("--version")
        self.assertEqual((result.returncode, result.stdout), (0, "flotilla 4.5.6 (not built)\n"))
        self.assert_nothing_done()

    def test_slips_in_a_fresh_checkout(self):
        for args, shown in ((["trian"], "trian"), (["--hlep"], "--hlep"), ([".*"], ".\\*"),
                            (["a\x1bb", "c"], "$'a\\Eb'")):
            result = self.run_launcher(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertEqual(result.stderr, f"flotilla: unknown command or option {shown}; "
                                            "./flotilla --help\n")
        result = self.run_launcher()
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("usage: ./flotilla COMMAND", result.stderr)
        self.assert_nothing_done()

    def test_with_a_binary_they_are_its_own(self):
        (self.project / "build/release").mkdir(parents=True)
        write_program(self.project / "build/release/flotilla", BINARY)
        for args in (["--version"], ["trian", "x"], ["train", "--help"], []):
            self.assert_ran(self.run_launcher(*args), *args)
        self.assertFalse(self.calls_file.exists())

    def test_an_option_of_a_command_is_not_a_question(self):
        self.take_away("apt-get")
        for args in (["train", "--version", "head"], ["train", "--", "--help"]):
            result = self.run_launcher(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("please install", result.stderr)


class Verbs(LauncherTest):
    def test_build(self):
        for preset, args in (("release", []), ("debug", ["--preset", "debug"]),
                             ("tsan", ["--preset=tsan"])):
            result = self.run_launcher("build", *args)
            self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
            self.assertTrue((self.project / "build" / preset / "flotilla").exists())
        self.assertTrue(all(call.endswith(" all") for call in self.calls("ninja")))

    def test_bad_usage(self):
        for args in (["build", "--preset"], ["build", "--preset", "nope"], ["build", "x"],
                     ["test", "--sanitize", "nope"], ["test", "a", "b"], ["test", "--nope"],
                     ["format", "x"], ["clean", "x"], ["doctor", "x"]):
            result = self.run_launcher(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertIn(f"usage: ./flotilla {args[0]}", result.stderr)
        self.assertFalse(self.calls_file.exists())

    def test_test_runs_ctest_with_a_venv(self):
        result = self.run_launcher("test", "core")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"python={self.project}/build/venv/bin/python\n", result.stdout)
        self.assertEqual(self.calls("ctest")[-1],
                         f"--test-dir {self.project}/build/release --output-on-failure "
                         f"--parallel {len(os.sched_getaffinity(0)) + 1} -R core")
        installs = sum("pip install" in call for call in self.calls("python3"))
        self.assertEqual(installs, 1)
        self.run_launcher("test")
        self.assertEqual(sum("pip install" in call for call in self.calls("python3")), installs)

    def test_test_goes_on_without_the_network(self):
        self.flag("pip_fails")
        result = self.run_launcher("test")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("will skip", result.stderr)
        self.assertEqual(len(self.calls("ctest")), 2)

    def test_python_has_the_package_of_these_sources(self):
        def installs():
            return [call for call in self.calls("python3") if "pip install" in call]

        result = self.run_launcher("python", "-c", "pass")
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        self.assertEqual(self.calls("python3")[-1], "-c pass")
        self.assertTrue(installs()[-1].endswith(f"--force-reinstall {self.project}"))
        before = len(installs())
        self.run_launcher("python")
        self.assertEqual(len(installs()), before)
        time.sleep(0.01)
        (self.project / "src/new.cpp").touch()
        self.run_launcher("python")
        self.assertEqual(len(installs()), before + 2)

    def test_python_says_why_there_is_no_package(self):
        self.flag("pip_fails")
        result = self.run_launcher("python")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no build/venv", result.stderr)

    def test_test_fails_when_a_test_fails_or_none_matches(self):
        self.assertEqual(self.run_launcher("test", "nothing").returncode, 2)
        self.flag("ctest_fails")
        self.assertEqual(self.run_launcher("test").returncode, 1)

    def test_sanitizers_have_their_preset_and_no_venv(self):
        result = self.run_launcher("test", "--sanitize", "thread", TSAN_OPTIONS="verbosity=1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tsan=halt_on_error=1:die_after_fork=0:second_deadlock_stack=1:verbosity=1\n",
                      result.stdout)
        self.assertIn("python=none\n", result.stdout)
        self.assertEqual(self.calls("cmake"), ["--preset tsan " + WITH_CLANG])
        self.assertFalse((self.project / "build/venv").exists())

    def sanitized_build(self, **env):
        self.calls_file.unlink(missing_ok=True)
        shutil.rmtree(self.project / "build", ignore_errors=True)
        result = self.run_launcher("build", "--preset", "asan", **env)
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.calls("cmake")

    def test_sanitized_builds_install_clang(self):
        self.set_uid(0)
        self.take_away("clang++-16")
        self.assertEqual(self.sanitized_build(), ["--preset asan " + WITH_CLANG])
        self.assertTrue(self.calls("apt-get")[-1].endswith(" " + CLANG_PACKAGES))
        self.run_launcher("list")  # no other build has it
        self.assertEqual(self.calls("cmake")[-1], "--preset release")

    def test_sanitized_builds_go_without_clang(self):
        self.take_away("clang++-16")
        self.assertEqual(self.sanitized_build(), ["--preset asan"])  # not root
        self.set_uid(0)
        self.flag("apt_fails")
        self.assertEqual(self.sanitized_build(), ["--preset asan"])
        self.assertEqual(len(self.calls("apt-get")), 2)
        self.add_stub("clang++-16", "exit 1")  # without its sanitizers
        self.assertEqual(self.sanitized_build(), ["--preset asan"])
        self.assertEqual(len(self.calls("apt-get")), 2)
        for env in ({"CXX": "g++"}, {"FLOTILLA_CMAKE_ARGS": "-DCMAKE_CXX_COMPILER=g++"}):
            self.assertEqual(self.sanitized_build(**env),
                             [" ".join(["--preset asan", env.get("FLOTILLA_CMAKE_ARGS", "")]).strip()])
            self.assertEqual(self.calls("apt-get"), [])

    def test_format_check_names_files_once(self):
        (self.project / "src/ugly.cpp").touch()
        result = self.run_launcher("format", "--check")
        self.assertEqual((result.returncode, result.stdout), (1, "src/ugly.cpp\n"))
        self.assertEqual(self.run_launcher("format").returncode, 0)
        self.assertEqual(self.calls("clang-format")[-1], "-i -- src/ugly.cpp")

    def test_format_without_clang_format(self):
        self.take_away("clang-format")
        result = self.run_launcher("format")
        self.assertEqual(result.returncode, 2)
        self.assertIn("apt-get install -y --no-install-recommends clang-format", result.stderr)

    def test_clean_removes_build_only(self):
        self.run_launcher("list")
        before = set(os.listdir(self.project)) - {"build"}
        self.assertEqual(self.run_launcher("clean").returncode, 0)
        self.assertEqual(set(os.listdir(self.project)), before)
        self.assertEqual(self.run_launcher("clean").returncode, 0)

    def test_clean_refuses_a_link(self):
        (self.dir / "precious").mkdir()
        (self.dir / "precious/file").touch()
        (self.project / "build").symlink_to(self.dir / "precious")
        self.assertEqual(self.run_launcher("clean").returncode, 2)
        self.assertTrue((self.dir / "precious/file").exists())

    def test_doctor_reports_and_runs_the_binarys_check(self):
        self.flag("python_broken")
        result = self.run_launcher("doctor")
        self.assertEqual(result.returncode, 0, result.stderr)
        for label in ("OS", "CPU", "memory", "compiler", "ninja", "libtorch", "BLAS", "gymnasium"):
            self.assertRegex(result.stdout, rf"(?m)^{label} ")
        self.assertTrue(result.stdout.endswith("<doctor>\n"))

    def test_doctor_installs_nothing(self):
        self.set_uid(0)
        self.take_away("ninja")
        result = self.run_launcher("doctor")
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get install -y --no-install-recommends ninja-build", result.stdout)
        self.assertEqual(self.calls("apt-get"), [])
        self.assertFalse((self.project / "build").exists())


if __name__ == "__main__":
    unittest.main()
