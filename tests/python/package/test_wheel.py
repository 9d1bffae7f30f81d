"""What the wheel is: it has what it needs inside, and asks for nothing that was not asked for."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import flotilla

PACKAGE = Path(flotilla.__file__).parent


def python(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})


class Wheel(unittest.TestCase):
    def test_its_libraries_come_with_it(self):
        mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()
                  if "/" in line}
        for library in ("libfmt", "libspdlog", "libyaml-cpp"):
            found = {path for path in mapped if Path(path).name.startswith(library)}
            self.assertTrue(found and all(str(PACKAGE.parent) in path for path in found), found)

    def test_it_is_typed_and_has_its_files(self):
        for name in ("py.typed", "_native.pyi", "share/dvrp", "share/cage2"):
            self.assertTrue((PACKAGE / name).exists(), name)

    def test_the_types_of_the_extension_module(self):
        """_native.pyi has what the module has, no more and no less."""
        def public(names):
            return {name for name in names if not name.startswith("_")}

        def named(nodes):
            found = {node.name: node for node in nodes
                     if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
            found.update({node.target.id: node for node in nodes if isinstance(node, ast.AnnAssign)})
            return found

        stub = named(ast.parse((PACKAGE / "_native.pyi").read_text()).body)
        module = flotilla._native
        self.assertEqual(set(stub), public(dir(module)))
        for name, node in stub.items():
            if isinstance(node, ast.ClassDef) and not issubclass(getattr(module, name), Exception):
                self.assertEqual(public(named(node.body)), public(dir(getattr(module, name))), name)
            if isinstance(node, ast.FunctionDef):
                signature = getattr(module, name).__doc__.splitlines()[0]
                parameters = re.findall(r"[(,] ?(\w+): ", re.sub(r"\[.*?\]+", "", signature))
                self.assertEqual([each.arg for each in node.args.args], parameters, signature)

    def test_it_holds_no_libtorch(self):
        self.assertEqual([path for path in PACKAGE.parent.rglob("*torch*.so*")
                          if "flotilla" in str(path.relative_to(PACKAGE.parent))], [])

    def test_gymnasium_is_needed_for_environments_alone(self):
        hide = "import sys; sys.modules['gymnasium'] = None; import importlib.util as u; " \
               "find = u.find_spec; u.find_spec = lambda n, *r: None if n == 'gymnasium' else find(n, *r); "
        done = python(hide + "import flotilla; print(len(flotilla.envs()) > 5); flotilla.make_vec('cartpole')")
        self.assertEqual(done.stdout, "True\n")
        self.assertIn("ImportError: flotilla.make_vec needs gymnasium: pip install", done.stderr)

    def test_adapters_are_imported_when_asked_for(self):
        done = python("import sys, flotilla; print([m for m in ('torch', 'stable_baselines3', "
                      "'matplotlib', 'pandas') if m in sys.modules])")
        self.assertEqual(done.stdout, "[]\n", done.stderr)

    def test_the_example_runs(self):
        examples = Path(os.environ["FLOTILLA_ROOT"]) / "examples" / "python"
        done = subprocess.run([sys.executable, examples / "first_steps.py", "--quick"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("evaluation", done.stdout)

    @unittest.skipUnless(importlib.util.find_spec("optuna"), "optuna is not installed")
    def test_the_example_with_optuna_runs(self):
        examples = Path(os.environ["FLOTILLA_ROOT"]) / "examples" / "python"
        done = subprocess.run([sys.executable, examples / "sweep_optuna.py", "8", "10000"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        trials, best = done.stdout.splitlines()
        self.assertRegex(trials, "^8 trials, [0-9] ended early$")
        # By chance it is about 20.
        self.assertGreater(float(re.match("best mean return ([0-9.]+) with", best)[1]), 40)


if __name__ == "__main__":
    unittest.main()
