#!/usr/bin/env bash
# Makes a throwaway PostgreSQL with the extension installed into it, without installing anything into the
# system. To be sourced.
#
# How this works without changes in /usr: a server finds its shared files by where its own binary lies, relative to
# what was compiled in (make_relative_path() in core's src/port/path.c). So `make install DESTDIR=` puts the
# extension below an empty root, the server's binaries are copied there, and all else of the real installation is
# linked beside them. What runs is then a complete installation with ours in it: CREATE EXTENSION, $libdir and the
# install target are tested as a user meets them, for every major version (extension_control_path would be 18 and
# newer).
#
#   server_init PG_CONFIG BUILD       makes a work folder, builds (into BUILD) and installs there
#   server_start [NAME=VALUE...]      initdb and start, with these settings
#   server_stop, server_clean         server_clean also removes the folder, unless KEEP=1
#   run_as COMMAND...                 as the account that owns the server
# Sets: work, sockets (a folder), bindir (of the copied binaries), major, server_log

planner=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  if [[ -n ${2:-} ]]; then printf '  remedy: %s\n' "$2" >&2; fi
  exit 2
}

# A server refuses to run as root; Debian's package creates the account `postgres`.
run_as() {
  if ((EUID == 0)); then
    setpriv --reuid=postgres --regid=postgres --init-groups --inh-caps=-all -- env HOME="$work" "$@"
  else
    "$@"
  fi
}

link_all() { # FROM TO: links what is in FROM and not in TO
  local entry
  for entry in "$1"/*; do
    if [[ ! -e $2/${entry##*/} ]]; then ln -s "$entry" "$2/${entry##*/}"; fi
  done
}

# The newest server with headers on this machine; plan/Makefile chooses the same.
newest_pg_config() {
  local found
  found=$(printf '%s\n' /usr/lib/postgresql/*/bin/pg_config | sort -V | tail -n 1)
  if [[ -x $found ]]; then printf '%s\n' "$found"; else printf 'pg_config\n'; fi
}

server_init() {
  local pg_config=$1 build=$2 share library real
  "$pg_config" --version >/dev/null 2>&1 ||
    die "$pg_config is no pg_config that runs" 'make setup, or name another by --pg-config'
  # shellcheck disable=SC2034 # for scripts that source this
  major=$("$pg_config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
  real=$("$pg_config" --bindir)
  share=$("$pg_config" --sharedir)
  library=$("$pg_config" --pkglibdir)
  [[ -x $real/postgres ]] || die "there is no server in $real" "apt-get install postgresql-$major"

  # Outside of the working tree, which the account postgres may not be able to enter; a socket's path is
  # limited to 107 bytes.
  work=$(mktemp -d -p "${TMPDIR:-/var/tmp}" ccopt-test-XXXXXX)
  trap server_clean EXIT
  trap 'exit 130' INT TERM
  chmod 0755 "$work"
  if [[ -z $build ]]; then build=$planner/../build/plan/$major; fi
  make --no-print-directory -C "$planner" PG_CONFIG="$pg_config" build="$build" DESTDIR="$work/root" install \
    >"$work/install.log" 2>&1 || { cat "$work/install.log" >&2; die 'the extension does not build'; }

  bindir=$work/root$real
  mkdir -p "$bindir" "$work/root$share/extension" "$work/root$library"
  cp "$real"/{postgres,initdb,pg_ctl} "$bindir"
  link_all "$real" "$bindir"
  link_all "$share" "$work/root$share"
  link_all "$share/extension" "$work/root$share/extension"
  link_all "$library" "$work/root$library"

  sockets=$work/run
  server_log=$work/server.log
  mkdir -p "$sockets" "$work/data"
  if ((EUID == 0)); then chown postgres:postgres "$work" "$sockets" "$work/data"; fi
  chmod 0700 "$work/data"
}

# Lets server_start run all processes of the server under memcheck; server_log_is_clean reports its findings.
server_use_valgrind() { # PG_CONFIG
  local suppressions
  suppressions=$("$1" --sharedir)/valgrind.supp
  [[ -e $suppressions ]] ||
    die "$1 belongs to no server that tells memcheck of its memory contexts" "that of plan/test/assert-server"
  command -v valgrind >/dev/null || die 'there is no valgrind' 'apt-get install valgrind'
  mkdir "$work/valgrind"
  printf '#!/bin/sh\nexec valgrind --quiet --trace-children=yes --leak-check=no --log-file=%s/%%p.log \
  --error-markers=MEMCHECK-BEGIN,MEMCHECK-END --suppressions=%s %s/postgres "$@"\n' \
    "$work/valgrind" "$suppressions" "$bindir" >"$bindir/postgres-valgrind"
  chmod 0755 "$bindir/postgres-valgrind"
  if ((EUID == 0)); then chown postgres:postgres "$work/valgrind"; fi
  server_program=$bindir/postgres-valgrind
}

server_start() {
  local setting
  if [[ ! -e $work/data/PG_VERSION ]]; then
    run_as "$bindir/initdb" --pgdata="$work/data" --username=postgres --auth=trust --no-sync --encoding=UTF8 \
      --locale=C >"$work/initdb.log" 2>&1 || { cat "$work/initdb.log" >&2; die 'initdb failed'; }
  fi
  {
    printf "listen_addresses = ''\nunix_socket_directories = '%s'\n" "$sockets"
    # The files are deleted after the run.
    printf 'fsync = off\nautovacuum = off\nmax_connections = 40\nshared_buffers = 64MB\nlog_min_messages = warning\n'
    printf 'jit = off\nmax_prepared_transactions = 4\nlogging_collector = off\n'
    for setting in "$@"; do printf "%s = '%s'\n" "${setting%%=*}" "${setting#*=}"; done
  } | run_as tee "$work/data/postgresql.auto.conf" >/dev/null
  ulimit -c unlimited # for the backtrace of a crash
  run_as "$bindir/pg_ctl" --pgdata="$work/data" --log="$server_log" --silent --wait --timeout=300 \
    -p "${server_program:-$bindir/postgres}" start ||
    { tail -n 20 "$server_log" >&2; die 'the server does not start'; }
}

server_stop() { # MODE: of pg_ctl stop
  if [[ -n ${work:-} && -e $work/data/postmaster.pid ]]; then
    run_as "$bindir/pg_ctl" --pgdata="$work/data" --mode="$1" --silent --wait stop || true
  fi
}

server_clean() {
  local status=$?
  server_stop immediate
  if [[ -n ${work:-} ]]; then
    if ((${KEEP:-0})); then printf 'kept %s\n' "$work" >&2; else rm -rf -- "$work"; fi
  fi
  return "$status"
}

# Fails on messages that a server must never log, whatever the tests' results: crashes, failed assertions,
# leaks of resources.
server_log_is_clean() {
  local bad
  if [[ -d $work/valgrind ]] && grep -qh MEMCHECK-BEGIN "$work"/valgrind/*.log; then
    printf 'memcheck complained %s times:\n' "$(cat "$work"/valgrind/*.log | grep -c MEMCHECK-BEGIN)" >&2
    cat "$work"/valgrind/*.log | grep -A 25 MEMCHECK-BEGIN | head -n 120 >&2
    return 1
  fi
  bad=$(grep -E -n 'PANIC|TRAP:|terminated by signal|refcount leak|reference leak|snapshot reference|resource was not closed|problem in alloc set|detected write past chunk|Failed process was running' "$server_log") ||
    return 0
  printf 'the server complained:\n%s\n' "$bad" >&2
  if compgen -G "$work/data/core*" >/dev/null && command -v gdb >/dev/null; then
    gdb --quiet --batch --nx -ex bt "$bindir/postgres" "$(compgen -G "$work/data/core*" | head -n 1)" 2>/dev/null |
      grep '^#' | head -n 20 >&2
  fi
  return 1
}
