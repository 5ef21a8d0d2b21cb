#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""test.py CONFIGURE: reads package.py with a stand-in for Spack, as Spack is in no package.  Shows that
it is Python, that its options are configure's, and which GPUs it refuses; not that Spack builds it."""
import os
import subprocess
import sys
import types

rows = {"variant": {}, "depends_on": [], "conflicts": [], "version": []}


def directive(name):
    def call(*args, **kw):
        if name == "variant":
            rows[name][args[0]] = kw
        elif name in rows:
            rows[name].append((args, kw))

    return call


class Prefix(str):
    def __getattr__(self, name):
        return Prefix(os.path.join(self, name))


class Spec(dict):
    """+cuda -nccl cuda_arch=90"""

    def __init__(self, on, archs):
        self.on = on
        self.variants = {"cuda_arch": types.SimpleNamespace(value=archs)}

    def __getitem__(self, name):
        return types.SimpleNamespace(prefix=Prefix(f"/spack/{name}"))

    def satisfies(self, text):
        return text[1:] in self.on


class AutotoolsPackage:
    def with_or_without(self, name, activation_value=None):
        assert name in rows["variant"], name
        assert activation_value == "prefix"
        return [f"--with-{name}={self.spec[name].prefix}" if name in self.spec.on else f"--without-{name}"]


class CudaPackage:
    # Spack's, in part
    cuda_arch_values = ("30", "37", "50", "52", "60", "61", "70", "75", "80", "86", "89", "90", "90a", "100", "120")


fake = types.ModuleType("spack.package")
for name in ("variant", "depends_on", "conflicts", "version", "maintainers", "license"):
    setattr(fake, name, directive(name))
fake.AutotoolsPackage, fake.CudaPackage = AutotoolsPackage, CudaPackage
fake.join_path, fake.which = os.path.join, None
sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), fake
here = os.path.dirname(os.path.abspath(__file__))
scope = {"__name__": "package"}
exec(compile(open(f"{here}/repos/mds/packages/mds/package.py").read(), "package.py", "exec"), scope)

configure = sys.argv[1]
help_ = subprocess.run([configure, "--help"], capture_output=True, text=True, check=True).stdout
version = subprocess.run([configure, "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
assert rows["version"][0][0] == (version,), (rows["version"], version)
refused = {a[0].split("=")[1] for a, kw in rows["conflicts"]}
assert refused == {"30", "37", "50", "52", "60", "61", "none"}, refused
package = scope["Mds"]()
libraries = {name for name in rows["variant"]}
assert libraries >= {"openblas", "pmix", "nccl", "cudnn"}, libraries
for on in (set(), libraries, libraries | {"cuda"}, {"cuda"}):
    package.spec = Spec(on, ("80", "90a"))
    for argument in package.configure_args():
        word = argument.split("=")[0].replace("--without-", "--with-")
        assert f"{word}[=DIR]" in help_ or f"{word}=" in help_ or f"{word} " in help_ or word == "CUDA_ARCHS", argument
    arguments = " ".join(package.configure_args())
    assert ("CUDA_ARCHS=80 90" in arguments) == ("cuda" in on), arguments
    for name in libraries - ({"nccl", "cudnn"} if "cuda" not in on else set()):
        assert (f"--with-{name}=/spack/{name}" if name in on else f"--without-{name}") in arguments, arguments
print(f"package.py: {len(rows['variant'])} variants, {len(rows['depends_on'])} dependencies; Spack itself was not run")
