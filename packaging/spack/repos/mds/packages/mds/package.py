# SPDX-License-Identifier: BSD-3-Clause
# For Spack: spack repo add packaging/spack/repos/mds; docs/install.md
import os

from spack.package import *


class Mds(AutotoolsPackage, CudaPackage):
    """Pre-training of GPT models on very long sequences: an MPI program in C and CUDA with tensor,
    pipeline, sequence and data parallelism, ZeRO and offload; and a launcher for PBS, Slurm and
    Cobalt."""

    # A release's tarball in the current folder, or in a mirror.
    url = f"file://{os.getcwd()}/mds-0.1.0.tar.gz"

    maintainers("mds-authors")
    license("BSD-3-Clause", checked_by="mds-authors")

    version("0.1.0")

    variant("openblas", default=True, description="OpenBLAS for matrix products on CPUs")
    variant("pmix", default=True, description="find nodes and ranks by PMIx")
    variant("htslib", default=True, description="score variants (VCF)")
    variant("nccl", default=True, when="+cuda", description="several GPUs a job")
    variant("cudnn", default=True, when="+cuda", description="attention on GPUs before Hopper")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")
    depends_on("hdf5")
    depends_on("libyaml")
    depends_on("zlib-api")
    depends_on("openblas threads=openmp", when="+openblas")
    depends_on("pmix", when="+pmix")
    depends_on("htslib@1.10:", when="+htslib")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+nccl")
    depends_on("cudnn@9:", when="+cudnn")

    # BF16 and FP16 kernels take Volta or later; only 90 (Hopper) was measured.
    for _arch in CudaPackage.cuda_arch_values:
        if int("".join(c for c in _arch if c.isdigit())) < 70:
            conflicts(f"cuda_arch={_arch}", when="+cuda", msg="mds takes GPUs from 7.0 (Volta) on")
    conflicts("cuda_arch=none", when="+cuda", msg="say which GPUs: cuda_arch=80 or 90")

    def configure_args(self):
        spec = self.spec
        args = [f"--with-mpi={spec['mpi'].prefix}", f"--with-hdf5={spec['hdf5'].prefix}"]
        args.append(f"--with-libyaml={spec['libyaml'].prefix}")
        for name in ("openblas", "pmix", "htslib"):
            args += self.with_or_without(name, activation_value="prefix")
        if spec.satisfies("+cuda"):
            archs = " ".join(a.rstrip("af") for a in spec.variants["cuda_arch"].value)
            args += [f"--with-cuda={spec['cuda'].prefix}", f"CUDA_ARCHS={archs}"]
            args += self.with_or_without("nccl", activation_value="prefix")
            args += self.with_or_without("cudnn", activation_value="prefix")
        else:
            args.append("--without-cuda")
        return args

    def setup_run_environment(self, env):
        env.prepend_path("PATH", join_path(self.prefix.share, "mds", "ALCF"))

    def test_version(self):
        """the version, with its commit and libraries"""
        out = which(self.prefix.bin.mds_pretrain)("--version", output=str.split, error=str.split)
        assert f"mds_pretrain {self.version}" in out

    def test_dry_run(self):
        """memory and FLOPs of a step, without MPI"""
        which(self.prefix.bin.mds_pretrain)(
            "--dry-run", "--num-layers", "2", "--hidden-size", "64", "--num-attention-heads", "4", "--seq-length", "64"
        )
