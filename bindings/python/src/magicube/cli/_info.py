# SPDX-License-Identifier: Apache-2.0
"""magicube info"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from typing import Any

from rich.console import Console
from rich.table import Table

import magicube as mc
from magicube.cli._console import JsonOption, session

PACKAGES = (
    "numpy", "ml_dtypes", "scipy", "onnx", "onnxruntime", "torch", "safetensors", "matplotlib",
)
DEVICES = ("cpu", "cuda")


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def gather() -> dict[str, Any]:
    """Everything that `magicube info` tells."""
    devices = [
        dataclasses.asdict(mc.device_info(device, ordinal))
        for device in DEVICES
        for ordinal in range(mc.device_count(device))
    ]
    kinds = sorted({entry["device"] for entry in devices})
    operations = {
        "spmm": mc.spmm_implementations,
        "sddmm": mc.sddmm_implementations,
        "sparse_softmax": mc.sparse_softmax_implementations,
        "attention": mc.attention_implementations,
    }
    return {
        "version": mc.__version__,
        "build": mc.build_info(),
        "python": platform.python_version(),
        "devices": devices,
        "implementations": {
            name: {device: list(listed(device)) for device in kinds}
            for name, listed in operations.items()
        },
        "packages": _versions(),
    }


def _render(payload: dict[str, Any], console: Console) -> None:
    console.print(f"magicube {payload['version']} (Python {payload['python']})")
    console.print(payload["build"])
    devices = Table("device", "name", "units", "memory", "usable", title="Devices")
    for entry in payload["devices"]:
        devices.add_row(
            f"{entry['device']}:{entry['ordinal']}",
            entry["name"],
            str(entry["multiprocessors"]),
            f"{entry['memory_bytes'] / 2**30:.1f} GiB",
            "yes" if entry["supported"] else "no",
        )
    console.print(devices)
    table = Table("operation", "device", "implementations", title="Implementations")
    for operation, by_device in payload["implementations"].items():
        for device, names in by_device.items():
            table.add_row(operation, device, ", ".join(names) or "none")
    console.print(table)
    packages = Table("package", "version", title="Python packages")
    for name, version in payload["packages"].items():
        packages.add_row(name, version or "not installed")
    console.print(packages)


def info(json: JsonOption = False) -> None:
    """Version, build, devices, implementations, and the packages found."""
    with session(json) as current:
        payload = gather()
        current.emit(payload, lambda console: _render(payload, console))
