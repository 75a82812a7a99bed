#!/usr/bin/env python3
"""Gives torch's CUDA wheel empty CUDA libraries, so that it can be imported on a machine without any.

`pip install --no-deps torch` leaves 3 GB of NVIDIA libraries out, but torch's own libraries name them and are not
loaded without. This writes one library for each that is missing, with every symbol torch asks of it, under its
version. Each function says that there is no device. Needs gcc and readelf.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

# What belongs to CUDA, among the libraries that torch's name and the symbols that have no version.
LIBRARY = re.compile(r"lib(cu|nv|nccl|nvshmem|cudnn)\w*\.so\.\d+")
SYMBOL = re.compile(r"(cu|nv|nccl)[A-Za-z]\w*")
# What every function returns: "no CUDA-capable device is detected" (cudaErrorNoDevice, CUDA runtime API 13.0).
NO_DEVICE = 100


def readelf(*args):
    return subprocess.run(["readelf", "-W", *map(str, args)], capture_output=True, text=True, check=True).stdout


def needs(library):
    """The libraries that one names, and the library behind each of its symbol versions."""
    named = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf("-d", library))
    versions, file = {}, None
    for line in readelf("-V", library).splitlines():
        if match := re.search(r"File: (\S+)", line):
            file = match[1]
        elif file and (match := re.search(r"Name: (\S+)\s+Flags", line)):
            versions[match[1], file] = file
    return [name for name in named if LIBRARY.fullmatch(name)], {version: file for version, file in versions}


def symbols(library):
    """The dynamic symbols of a library: name, version or None, whether it is data, whether it is undefined."""
    for line in readelf("--dyn-syms", library).splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[0] == "Num:":
            continue
        name, _, version = fields[7].partition("@")
        yield name, version.lstrip("@") or None, fields[3] == "OBJECT", fields[6] == "UND"


def wanted(libraries):
    """Library to version to symbols: everything of CUDA that torch names and does not define itself."""
    found = {library: list(symbols(library)) for library in libraries}
    own = {name for listed in found.values() for name, _, _, undefined in listed if not undefined}
    want = collections.defaultdict(lambda: collections.defaultdict(dict))
    for library, listed in found.items():
        named, versions = needs(library)
        for name in named:
            want[name][None].update({})
        for name, version, data, undefined in listed:
            if not undefined or name in own:
                continue
            if version and LIBRARY.fullmatch(versions.get(version, "")):
                want[versions[version]][version][name] = data
            elif version is None and named and SYMBOL.fullmatch(name):
                want[named[0]][None][name] = data
    return want


def compile_one(path, versions):
    """Writes a library with the given symbols by version."""
    lines, script = [], []
    for version, names in versions.items():
        for name, data in names.items():
            lines.append(f"char {name}[64];" if data else f"int {name}(void) {{ return {NO_DEVICE}; }}")
        if version and names:
            script.append(f"{version} {{ global: {' '.join(f'{name};' for name in names)} }};")
    with tempfile.TemporaryDirectory() as folder:
        source, map_file = pathlib.Path(folder, "empty.c"), pathlib.Path(folder, "empty.map")
        source.write_text("\n".join(lines) + "\n")
        map_file.write_text("\n".join(script) + "\n")
        command = ["gcc", "-shared", "-fPIC", "-fno-builtin", "-w", "-o", path, source, f"-Wl,-soname,{path.name}"]
        if script:
            command.append(f"-Wl,--version-script={map_file}")
        subprocess.run(command, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site_packages", type=pathlib.Path, help="the site-packages folder that torch is in")
    site = parser.parse_args().site_packages
    version_file = site / "torch" / "version.py"
    if not version_file.is_file():
        sys.exit(f"{version_file}: not there; expected a site-packages folder with torch in it")
    cuda = re.search(r"""^cuda\b.*=\s*['"](\d+)\.""", version_file.read_text(), re.MULTILINE)
    if not cuda:
        sys.exit(f"{version_file}: names no CUDA version; a torch without CUDA needs no libraries of it")
    folder = site / "nvidia" / f"cu{cuda[1]}" / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for name, versions in sorted(wanted(sorted((site / "torch" / "lib").glob("*.so"))).items()):
        if not list((site / "nvidia").rglob(name)):
            compile_one(folder / name, versions)
            written += 1
    print(f"{written} empty libraries written into {folder}")


if __name__ == "__main__":
    main()
