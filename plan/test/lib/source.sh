#!/usr/bin/env bash
# Fetches PostgreSQL's source as Debian packages it, into a folder that is never committed. To be sourced, after server.sh.
#
#   fetch_source MAJOR FOLDER     leaves FOLDER/postgresql-VERSION, and sets source_tree to it
#
# apt's signatures are checked, its configuration is not touched: lists and archives lie in FOLDER. The newest version of
# the major that its servers have is taken; it may be a minor version behind the installed binaries.

fetch_source() {
  local major=$1 folder=$2 pool=$2/apt options version='' suites
  case $major in # the release of Debian that has it
    15) suites=(bookworm bookworm-security) ;;
    17) suites=(trixie trixie-security) ;;
    *) suites=(sid) ;;
  esac
  if ! compgen -G "$folder/postgresql-$major.*/configure" >/dev/null; then
    command -v apt-get >/dev/null ||
      die "there is no apt-get to fetch PostgreSQL's source" "unpack it as $folder/postgresql-$major.x by your own means"
    mkdir -p "$pool"/{lists/partial,cache/archives/partial,sources}
    local suite archive
    for suite in "${suites[@]}"; do
      archive=debian
      if [[ $suite == *-security ]]; then archive=debian-security; fi
      printf 'Types: deb-src\nURIs: http://deb.debian.org/%s\nSuites: %s\nComponents: main\nSigned-By: %s\n\n' \
        "$archive" "$suite" /usr/share/keyrings/debian-archive-keyring.gpg
    done >"$pool/sources/source.sources"
    options=(-q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$pool/sources"
      -o Dir::State::Lists="$pool/lists" -o Dir::Cache="$pool/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update >"$folder/fetch.log" 2>&1 ||
      { cat "$folder/fetch.log" >&2; die 'no lists of source packages' 'is there a network?'; }
    # Newest first; a mirror may list a version whose files are missing.
    while read -r version; do
      if (cd "$folder" && apt-get "${options[@]}" source --download-only "postgresql-$major=$version") \
        >>"$folder/fetch.log" 2>&1; then
        break
      fi
      version=''
    done < <(apt-cache "${options[@]}" showsrc "postgresql-$major" | sed -n 's/^Version: //p' | sort --version-sort --reverse)
    [[ -n $version ]] || { tail "$folder/fetch.log" >&2; die "the source of postgresql-$major cannot be fetched"; }
    tar --extract --file "$folder/postgresql-${major}_${version%%-*}.orig.tar.bz2" --directory "$folder" --no-same-owner
  fi
  source_tree=$(compgen -G "$folder/postgresql-$major.*/configure" | sort --version-sort | tail -n 1)
  # shellcheck disable=SC2034 # for scripts that source this
  source_tree=${source_tree%/configure}
}
