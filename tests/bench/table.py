# SPDX-License-Identifier: Apache-2.0
"""`tests/bench/run.sh table`: the MoE layer (layers.py), whole models (models.py) and kernels (kernels/kernels.py) in one run, and every
bar with pass or MISS. All is compiled first, together; then the GPUs share the programs, one at a time on each. Takes the options of
models.py; --json writes layer, models, kernels and bars.
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "kernels")]
import jobs  # noqa: E402
import kernels  # noqa: E402
import layers  # noqa: E402
import models  # noqa: E402


def main():
    a = models.arguments()
    jobs.caches(os.environ.get("BUILDDIR", "."))
    of_models = models.Plan(a)
    layer = layers.Plan(a.tokens, 7 if a.quick else 20, not a.no_compile, a.limit)
    programs = kernels.running(kernels.PROGRAMS, a.limit)
    runner = jobs.Runner(deadline=a.deadline)
    runner.together("compiling", of_models.compiling + kernels.compiling(kernels.PROGRAMS) + layer.compiling)
    # the longest first, so that the GPUs end together; the kernels, which may be many, last
    runner.alone("measuring", of_models.chains[:1] + [layer.chain] + of_models.chains[1:] + [[j] for j in programs.values()])
    print("## The MoE layer: ours, Triton kernels and PyTorch in one run\n\n" + "\n".join(layer.report()))
    print("\n## Whole models: decode steps\n\n" + "\n".join(of_models.report()))
    print("\n## Kernels against their bytes\n\n" + "\n".join(kernels.report(programs)))
    found = layer.bars() + of_models.bars() + kernels.bars(kernels.rows_of(programs))
    found += [(f"kernels, {name}", f">= {kernels.BAR} %", "not measured", None) for name, j in programs.items() if not j.ok]
    print("\n## Bars")
    models.print_bars(found)
    print(f"\n{sum(bool(good) for *_, good in found)} of {len(found)} pass; {runner.summary()}")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(dict(layer=layer.rows(), models=of_models.rows(), kernels=kernels.rows_of(programs), bars=found), f, indent=1)
    failed = of_models.failed() + [j.name for j in layer.chain + list(programs.values()) if not j.ok]
    if failed:
        print("\nFAILED: " + "; ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
