"""The package as a whole: examples, manuals, the command line, types."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import zipfile
from pathlib import Path

import strandline as sl
from support import WORK, Scratch, has

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import to_notebooks  # noqa: E402


class Whole(Scratch):
    def test_the_examples_run_on_another_trace(self):
        """On their own input they run as notebooks."""
        trace = sl.record(sl.Workload("btree-fill", operations=300), self.folder / "other.slt")
        for example in to_notebooks.SCRIPTS:
            with self.subTest(example.name):
                environment = dict(os.environ, STRANDLINE_STORE=str(self.folder / "store"))
                ran = subprocess.run(
                    [sys.executable, str(example), str(trace.path)], cwd=self.folder, env=environment, capture_output=True, text=True
                )
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_the_notebooks_are_those_of_the_scripts_and_run(self):
        for script in to_notebooks.SCRIPTS:
            notebook = script.with_suffix(".ipynb")
            self.assertEqual(notebook.read_text(), to_notebooks.notebook(script), "run to_notebooks.py")
            if not has("nbclient") or not has("ipykernel"):
                continue
            import nbclient
            import nbformat

            environment = dict(os.environ, STRANDLINE_STORE=str(self.folder / "store"))
            with self.subTest(notebook.name), unittest.mock.patch.dict(os.environ, environment):
                cells = nbformat.read(notebook, as_version=4)
                where = {"metadata": {"path": str(self.folder)}}
                nbclient.NotebookClient(cells, timeout=300, kernel_name="python3", resources=where).execute()
                outputs = [output for cell in cells.cells if cell.cell_type == "code" for output in cell.outputs]
                pages = [output for output in outputs if "iframe" in output.get("data", {}).get("text/html", "")]
                self.assertTrue(pages or script.name == "crash.py", "no report is shown")

    @unittest.skipUnless(all(map(has, ["pandas", "pyarrow", "distributed"])), "no pandas, pyarrow, distributed")
    def test_the_code_of_the_manuals_runs(self):
        root = Path(__file__).parent.parent.parent
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        for page in ["docs/python.md", "python/README.md"]:
            with self.subTest(page), tempfile.TemporaryDirectory(dir="/dev/shm") as shared:
                text = (root / page).read_text().replace("/dev/shm/", f"{shared}/")
                blocks = re.findall(r"^(<!-- shell: skip[^\n]*\n)?```(sh|python)\n(.*?)^```$", text, re.M | re.S)
                shell = "\n".join(code for skip, language, code in blocks if language == "sh" and not skip)
                code = "\n".join(code for _, language, code in blocks if language == "python")
                self.assertIn("import strandline", code)
                for words in [["bash", "-ec", shell], [sys.executable, "-c", code]]:
                    own = dict(os.environ, PATH=path)
                    ran = subprocess.run(words, cwd=self.folder, env=own, capture_output=True, text=True)
                    self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_the_command_line_comes_along(self):
        command = Path(sys.executable).parent / "strandline"
        said = subprocess.run([command, "--version"], capture_output=True, text=True)
        self.assertEqual(said.stdout.strip(), f"strandline {sl.__version__}", said.stderr)
        doctor = subprocess.run([command, "doctor", "--json"], capture_output=True, text=True)
        self.assertIn("facts", json.loads(doctor.stdout))

    def test_the_command_line_is_the_module_s(self):
        """Its executable opens the module: statuses, pipes, names, and what starts it again are those of any program."""
        own = Path(sl.__file__).parent / "strandline"
        command = Path(sys.executable).parent / "strandline"
        self.assertLess(own.stat().st_size, 1 << 20)
        link = self.folder / "elsewhere"
        link.symlink_to(command)
        run = lambda *words, **more: subprocess.run(words, capture_output=True, text=True, cwd=self.folder, **more)  # noqa: E731
        for words in [[own], [command], [link], [sys.executable, "-m", "strandline"]]:
            self.assertEqual(run(*words, "--version").stdout, f"strandline {sl.__version__}\n")
            self.assertEqual(run(*words, "nothing").returncode, 2)
            self.assertEqual(run(*words, "doctor", "--json").returncode, 0)
        # A reader that goes away is no error, and no signal.
        piped = run("bash", "-c", f"set -o pipefail; {command} completions bash | head -n 1")
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))
        # The last line that has no end is there, too.
        self.assertTrue(json.loads(run(command, "profile", "--json", "--ops", "500").stdout))
        (self.folder / "app.c").write_text("static volatile int a[64]; int main(void) { for (int i = 0; i < 64; i++) a[i] = i; return a[3] != 3; }")
        (self.folder / "Makefile").write_text("app: app.c\n\t$(CC) -O1 -g -o app app.c\n")
        built = run("make", f"CC={command} cc")
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertGreater(sl.record([self.folder / "app"], self.folder / "a.slt").info["events"], 64)

    @unittest.skipUnless(has("maturin"), "no maturin")
    def test_a_wheel_s_executable_is_made_once_and_opens_the_module(self):
        """Of a module in C, in a folder whose name has a blank; its verb is the number of the file that it opens."""
        sys.path.insert(0, str(Path(__file__).parent.parent / "backend"))
        self.addCleanup(sys.path.pop, 0)
        import with_command

        folder = self.folder / "a folder" / "strandline"
        folder.mkdir(parents=True)
        source = folder / "module.c"
        source.write_text(
            "#include <fcntl.h>\nextern char _Py_NoneStruct; extern int PyErr_Print(void);\n"
            "void *data = &_Py_NoneStruct; int (*call)(void) = PyErr_Print;\n"
            'int strandline_main(void) { return data && call ? open("/dev/null", O_RDONLY) : 99; }\n'
        )
        module = folder / "_native.abi3.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", module, source], check=True)
        wheel = self.folder / "strandline-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as out:
            out.write(module, "strandline/_native.abi3.so")
            out.writestr("strandline-1.dist-info/RECORD", "strandline/_native.abi3.so,,\nstrandline-1.dist-info/RECORD,,\n")
        for _ in range(2):
            with_command.add_command(wheel)
            with zipfile.ZipFile(wheel) as made:
                names = made.namelist()
                record = made.read("strandline-1.dist-info/RECORD").decode().splitlines()
                launcher = folder / "strandline"
                launcher.write_bytes(made.read("strandline/strandline"))
            self.assertEqual(len(set(names)), len(names))
            # Pip writes the interpreter's path into scripts of a wheel as it is, with blanks.
            self.assertFalse([name for name in names if "/scripts/" in name])
            self.assertEqual(sorted(line.split(",")[0] for line in record), sorted(names))
            launcher.chmod(0o755)
            closed = ["bash", "-c", 'exec "$0" 0<&- 1>&- 2>&-', launcher]
            self.assertEqual(subprocess.run(closed, timeout=60).returncode, 3, "a standard stream's number is free")
        module.unlink()
        alone = subprocess.run([launcher], capture_output=True, text=True)
        self.assertEqual(alone.returncode, 2)
        self.assertIn("install the package again", alone.stderr)

    def test_nothing_heavy_is_imported(self):
        code = "import sys, strandline; print([m for m in ('pandas', 'polars', 'pyarrow', 'distributed', 'inspect', 'typing', 'asyncio') if m in sys.modules])"
        self.assertEqual(subprocess.check_output([sys.executable, "-c", code], text=True).strip(), "[]")

    @unittest.skipUnless(has("mypy"), "no mypy")
    def test_the_package_s_types_hold(self):
        """Of its sources, and of its stubs against what is there."""
        for words in (["mypy", "-p", "strandline", "--no-incremental"], ["mypy.stubtest", "strandline"]):
            ran = subprocess.run([sys.executable, "-m", *words], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_what_is_absent_is_named_with_what_installs_it(self):
        trace = sl.record(WORK, self.folder / "t.slt")
        for package, extra, call in [("pyarrow", "pandas", trace.to_pandas), ("polars", "polars", trace.to_polars)]:
            with unittest.mock.patch.dict(sys.modules, {package: None}):
                with self.assertRaisesRegex(ModuleNotFoundError, re.escape(f"strandline[{extra}]")):
                    call()

    def test_every_function_has_a_docstring_and_a_stub(self):
        stubs = (Path(sl.__file__).parent / "_native.pyi").read_text()
        for name in sl.__all__:
            if name not in ("VERSION", "__version__"):
                self.assertTrue(getattr(sl, name).__doc__, name)
        for name in dir(sl._native):
            if not name.startswith("_"):
                self.assertIn(f" {name}", f" {stubs}".replace("\n", " "), name)


if __name__ == "__main__":
    unittest.main()
