#!/bin/sh
# Writes the bodies of this directory anew. Needs Debian's packages mono-mcs, mono-runtime and
# libmono-system-runtime-serialization4.0-cil, and python3.
set -eu
cd "$(dirname "$0")"
program=$(mktemp -d)
trap 'rm -r "$program"' EXIT
mcs -nologo -r:System.Runtime.Serialization -r:System.Xml -out:"$program/write.exe" Program.cs
rm -f ./*.bin ./*.xml
TZ=Europe/Berlin mono "$program/write.exe" .
python3 records.py . > records.md
