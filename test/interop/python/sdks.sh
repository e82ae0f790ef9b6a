#!/usr/bin/env bash
# Makes directories for $TROUPE_PYTHON_SDKS where PyPI is not at hand: releases of the Python SDK from its source, run by
# Debian's Python with Debian's packages. Nothing is installed: all of it is unpacked below DIR.
#
#   bash sdks.sh DIR REPOSITORY TAG...
#
# REPOSITORY is a clone of https://github.com/modelcontextprotocol/python-sdk. It needs apt-get and dpkg, but neither root
# nor a system of that Debian release. The last line that it writes is the variable's value.
set -euo pipefail

readonly debian=${DEBIAN_RELEASE:-sid} # the first with packages that are new enough for release 2.x of the SDK
readonly packages=(python3 python3-anyio python3-cryptography python3-httpx python3-httpx-sse python3-httpx2 python3-jsonschema
	python3-jwt python3-opentelemetry-api python3-pydantic python3-pydantic-settings python3-python-multipart
	python3-sse-starlette python3-starlette python3-typing-extensions python3-typing-inspection python3-uvicorn)

mkdir -p "$1"
dir=$(cd "$1" && pwd) repository=$2
shift 2

if [[ ! -d $dir/debian ]]; then
	apt=$dir/apt
	mkdir -p "$apt"/{state/lists/partial,cache/archives/partial}
	touch "$apt/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian $debian main" >"$apt/sources.list"
	cat >"$apt/conf" <<-END
		Dir::State "$apt/state";
		Dir::State::status "$apt/status";
		Dir::Cache "$apt/cache";
		Dir::Etc::sourcelist "$apt/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		APT::Sandbox::User "root";
	END
	APT_CONFIG=$apt/conf apt-get -qq update
	APT_CONFIG=$apt/conf apt-get -qq install --yes --download-only --no-install-recommends "${packages[@]}"
	for package in "$apt"/cache/archives/*.deb; do
		dpkg --extract "$package" "$dir/debian.part"
	done
	mv "$dir/debian.part" "$dir/debian"
fi

value=
for tag in "$@"; do
	mkdir -p "$dir/$tag/bin"
	git -C "$repository" archive "$tag" src | tar --extract --directory "$dir/$tag"
	# The SDK looks up its own version, which an installation has.
	mkdir -p "$dir/$tag/src/mcp-${tag#v}.dist-info"
	printf 'Metadata-Version: 2.1\nName: mcp\nVersion: %s\n' "${tag#v}" >"$dir/$tag/src/mcp-${tag#v}.dist-info/METADATA"
	# Debian's Python runs with Debian's C library, which may be newer than that of this system.
	cat >"$dir/$tag/bin/python3" <<-END
		#!/bin/sh
		export PYTHONHOME='$dir/debian/usr'
		export PYTHONPATH='$dir/$tag/src:$dir/$tag/src/mcp-types:$dir/debian/usr/lib/python3/dist-packages'
		exec '$(echo "$dir"/debian/usr/lib/*-linux-gnu/ld-linux-*.so.*)' --library-path '$(echo "$dir"/debian/usr/lib/*-linux-gnu)' \\
			'$dir/debian/usr/bin/python3' "\$@"
	END
	chmod +x "$dir/$tag/bin/python3"
	"$dir/$tag/bin/python3" -c 'import mcp.client.streamable_http'
	value+=${value:+:}$dir/$tag
done
echo "TROUPE_PYTHON_SDKS=$value"
