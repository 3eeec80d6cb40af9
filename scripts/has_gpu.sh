#!/usr/bin/env bash
# Exit status 0 if a program started here finds an NVIDIA GPU: there is one, and CUDA_VISIBLE_DEVICES does not hide all.
case ${CUDA_VISIBLE_DEVICES-all} in '' | -*) exit 1 ;; esac
command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1
