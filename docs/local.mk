# Documentation.
dist_man_MANS += %D%/mainstem.1
EXTRA_DIST += %D%/report.md %D%/tune.md %D%/tutorial.md
EXTRA_DIST += %D%/architecture.md %D%/cli.md %D%/lanes.md %D%/language.md %D%/testing.md %D%/verify.md
EXTRA_DIST += %D%/plan.md %D%/runtime.md
EXTRA_DIST += %D%/passes.md
EXTRA_DIST += %D%/ir.md %D%/ops.md
EXTRA_DIST += %D%/kernels.md %D%/kernels_measured.md %D%/models.md
EXTRA_DIST += %D%/emit.md
