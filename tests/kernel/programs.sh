#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Packaged programs of a distribution, watched and not: the same output and exit status, and one function's calls counted
# by gdb or by the program itself as we count them. Some in every run, all that are installed with SCOPETRACE_LONG=1.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE"
snapshot "$T/before"
[ -x "$(command -v gdb)" ] || skip "gdb counts the calls, and is not installed"
# Hash tables of these languages are seeded at random; calls would not be as many in two runs.
export PYTHONHASHSEED=0 PERL_HASH_SEED=0 LC_ALL=C
missing=() done_count=0

# ---- what they run ---------------------------------------------------------------------------------------------------
seq 1 3000 >numbers
cat >work.py <<'END'
import json, re
data = [{"n": i, "t": str(i) * 3, "l": list(range(i % 7))} for i in range(300)]
text = json.dumps(data)
total = sum(x["n"] for x in json.loads(text))
try:
    raise ValueError("x")
except ValueError as e:
    total += len(str(e))
print(total, len(text), len(re.findall(r"\d+", text)), ",".join(sorted(str(i) for i in range(200)))[:40])
for i in range(100):
    "-".join([str(i), "x"])
END
cat >work.pl <<'END'
my %h;
for my $i (1..2000) { push @{$h{$i % 17}}, "v$i"; }
my $t = 0;
for my $k (sort { $a <=> $b } keys %h) { $t += scalar(grep { /7/ } @{$h{$k}}); }
eval { die "x\n" };
print "$t $@";
END
cat >work.sh <<'END'
t=0
for ((i = 0; i < 500; i++)); do a[i % 17]=$((i * i)); t=$((t + ${a[i % 17]})); done
s=${a[*]}
echo $t ${#s}
END
cat >work.sql <<'END'
create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x+1 from c where x<500) insert into t select x, 'row '||x from c;
select count(*), sum(a), max(b) from t where b like '%7%';
END
cat >work.tcl <<'END'
set s 0
for {set i 0} {$i < 2000} {incr i} { lappend l [expr {$i*$i % 97}]; incr s [lindex $l end] }
catch { error x } message
puts "$s [llength [lsort -unique $l]] $message"
END
cat >work.lua <<'END'
local t = {}
for i = 1, 2000 do t[#t + 1] = tostring(i):rep(2) end
table.sort(t)
print(#table.concat(t, ","), pcall(error, "x"))
END
cat >work.rb <<'END'
h = Hash.new(0)
(1..2000).each { |i| h["k#{i % 13}"] += i }
f = Fiber.new { Fiber.yield 1; 2 }
begin; raise "x"; rescue => e; h[e.message] = f.resume + f.resume; end
puts h.sort.inspect
END
cat >work.php <<'END'
<?php
$a = [];
for ($i = 0; $i < 2000; $i++) { $a["k" . ($i % 13)][] = $i; }
function g() { for ($i = 0; $i < 50; $i++) yield $i; }
foreach (g() as $v) $a["g"][] = $v;
try { throw new Exception("x"); } catch (Exception $e) { $a[] = $e->getMessage(); }
echo strlen(json_encode($a)), " ", count($a), "\n";
END
cat >work.xml <<'END'
<a><b n="1">x</b><b n="2">y &amp; z</b><c><d/></c></a>
END
cat >work.js <<'END'
const zlib = require("zlib");
let t = 0;
for (let i = 0; i < 50; i++) t += zlib.deflateSync(Buffer.from("a".repeat(1000 + i))).length;
try { throw new Error("x"); } catch (e) { t += e.message.length; }
console.log(t);
END

# ---- one program that runs to its end --------------------------------------------------------------------------------
# gdb_count FUNCTION COMMAND...: how often a breakpoint at it is hit, in $count.
gdb_count() {
	local function=$1
	shift
	timeout --kill-after=5 $((2 * PATIENCE)) gdb -batch -nx -iex 'set debuginfod enabled off' -iex 'set auto-load no' \
		-ex 'set breakpoint pending on' -ex "break $function" -ex 'ignore 1 1000000000' -ex run \
		-ex 'info breakpoints' --args "$@" </dev/null >gdb.out 2>&1
	count=$(sed -nE 's/.*breakpoint already hit ([0-9]+) times?.*/\1/p' gdb.out | head -n 1)
	count=${count:-0}
}

# calls_of FILE FUNCTION: its calls by the report, in $calls.
calls_of() {
	"$SCOPETRACE" report --json "$1" >report.json || fail "report of $1"
	calls=$(python3 - "$2" <<'END'
import json, sys
report = json.load(open("report.json"))
if not report["accounting"]["balanced"]:
    sys.exit("not balanced")
print(sum(f["calls"] for f in report["functions"] if f["name"] == sys.argv[1]))
END
	) || fail "the account of $1"
}

# program PATTERNS FUNCTION COMMAND...: PATTERNS are chosen, FUNCTION is counted.
program() {
	local patterns=$1 function=$2 name unwatched watched choice=()
	shift 2
	name=$(basename "$1")
	if ! [ -x "$(command -v "$1")" ]; then
		missing+=("$name")
		return
	fi
	for pattern in $patterns; do choice+=(-f "$pattern"); done
	"$@" >unwatched.out 2>unwatched.err </dev/null
	unwatched=$?
	timeout --kill-after=5 $((3 * PATIENCE)) "$SCOPETRACE" record --all -o program.scope "${choice[@]}" -- "$@" \
		>watched.out 2>watched.err </dev/null
	watched=$?
	[ $watched = $unwatched ] || fail "$name: exit status $watched watched, $unwatched unwatched"
	cmp -s unwatched.out watched.out || fail "$name: another output when it is watched"
	calls_of program.scope "$function"
	gdb_count "$function" "$@"
	[ "$count" -gt 0 ] || fail "$name: gdb saw no call of $function"
	[ "$calls" = "$count" ] || fail "$name: $calls calls of $function, $count by gdb"
	say "$name: output and exit status $watched as unwatched; $function: $calls calls, as gdb counts; $(
		sed -nE 's/^scopetrace: ([0-9]+) calls;.*/\1/p' watched.err) in all"
	done_count=$((done_count + 1))
}

say "== programs that run to their end"
program 'python3*:PyUnicode_* python3*:PyList_* python3*:PyDict_* python3*:PyErr_*' PyDict_Items /usr/bin/python3 -S -E work.py
program 'perl:Perl_sv_* perl:Perl_av_* perl:Perl_pp_*' Perl_av_push /usr/bin/perl work.pl
program 'bash:array_* bash:eval* bash:execute_*' array_insert /bin/bash --norc work.sh
program 'libcrypto*:EVP_* libcrypto*:SHA256_*' EVP_MD_get_type /usr/bin/openssl dgst -sha256 numbers
program 'liblzma*:*' lzma_code /usr/bin/xz -kc numbers
if [ -n "${SCOPETRACE_LONG:-}" ]; then
	program 'libsqlite3*:sqlite3_*' sqlite3_value_text sqlite3 :memory: '.read work.sql'
	program 'libtcl*:Tcl_*' Tcl_NRExprObj tclsh work.tcl
	program 'lua5.4:lua*' luaL_tolstring lua5.4 work.lua
	program 'libruby*:rb_str_* libruby*:rb_fiber_* libruby*:rb_hash_*' rb_hash_aset ruby --disable-gems work.rb
	program 'php*:zend_hash_* php*:zend_throw_* php*:zend_generator_*' zend_generator_resume php8.2 -n work.php
	program 'libjq*:jv_*' jv_array_append jq -n '[range(300)]|map(.*2)|add'
	program 'libxml2*:*' xmlBufUse xmllint --format work.xml
	program 'make:*' lookup_file make -f /dev/null -n -k
	program 'libcurl*:curl_*' curl_easy_setopt curl -s "file://$T/numbers"
	program 'libguile*:scm_c*' scm_c_define_gsubr guile --no-auto-compile -c '(display (apply + (iota 100)))'
	program 'libMagickCore*:*Image*' GetImageOption convert-im6.q16 -size 32x32 gradient:red-blue -depth 8 gray:-
	program 'libavcodec*:av*' av_codec_is_encoder ffmpeg -v error -f lavfi -i sine=d=0.2 -f s16le -
	program 'qemu-x86_64:cpu_*' cpu_exec_start qemu-x86_64 /bin/true
	program 'libpython*:PyUnicode_* libpython*:PyErr_*' PyUnicode_Concat gdb -batch -nx -ex 'python print(sum(range(100)))'
	program 'libreadline*:*' rl_add_funmap_entry bc -i numbers
	program 'node:uv_*' uv_os_getenv node work.js
	program 'libstdc++*:*' __dynamic_cast cmake -E echo x
	program 'libmpfr*:*' mpfr_free_func gawk -M 'BEGIN { for (i = 0; i < 100; i++) s += i * 2 ^ 70; print s }'
	program 'libpcre2*:*' pcre2_jit_match_8 git grep --no-index -cP '7$' numbers
	program 'libpcre2*:*' pcre2_get_ovector_pointer_8 grep -cP '7$' numbers
	program 'libgcrypt*:*' gcry_realloc gpg --version
	program 'libbfd*:*' bfd_getl64 objdump -f /bin/true
fi

# ---- servers, attached to while they work ----------------------------------------------------------------------------
# A server counts its own work; the client's output is what it says to its users.
# server NAME CLIENT OWN_COUNT PATTERNS FUNCTION COMMAND...: both are functions; the count is taken before and after.
server() {
	local name=$1 client=$2 own=$3 patterns=$4 function=$5 choice=() before after deadline
	shift 5
	if ! [ -x "$(command -v "$1")" ]; then
		missing+=("$name")
		return
	fi
	for pattern in $patterns; do choice+=(-f "$pattern"); done
	start "$name" err "$@"
	deadline=$((SECONDS + PATIENCE))
	until $own >/dev/null 2>&1; do
		[ $SECONDS -lt $deadline ] || fail "$name does not answer"
		kill -0 "${pid[$name]}" 2>/dev/null || fail "$name ended"
	done
	$client >unwatched.out 2>&1
	start "$name-record" err "$SCOPETRACE" record --all -p "${pid[$name]}" "${choice[@]}" -o server.scope
	wait_line "$name-record" 'armed [0-9]+ of'
	before=$($own)
	$client >watched.out 2>&1
	after=$($own)
	kill -INT "${pid[$name-record]}"
	finish "$name-record"
	expect_status 0 "record of $name"
	cmp -s unwatched.out watched.out || fail "$name: another answer when it is watched"
	calls_of server.scope "$function"
	# The counts themselves are asked for in between: by one request more, if that is one of those counted.
	if [ "$calls" -lt $((after - before)) ] || [ "$calls" -gt $((after - before + 1)) ]; then
		fail "$name: $calls calls of $function, $((after - before)) by its own count"
	fi
	kill -0 "${pid[$name]}" 2>/dev/null || fail "$name died under the recorder"
	kill -TERM "${pid[$name]}"
	finish "$name"
	say "$name: answers as unwatched; $function: $calls calls, $((after - before)) by its own count"
	done_count=$((done_count + 1))
}

nginx_client() {
	local i
	for i in {1..100}; do curl -s --unix-socket "$T/nginx.sock" http://x/numbers | md5sum; done | uniq -c
}

nginx_requests() { curl -sf --unix-socket "$T/nginx.sock" http://x/status | awk 'NR == 3 { print $3 }' | grep .; }

redis_client() {
	local i
	for i in {1..300}; do echo "set k$((i % 20)) $i"; done | redis-cli -s "$T/redis.sock" | sort | uniq -c
	redis-cli -s "$T/redis.sock" mget k1 k7 k19
}

redis_sets() {
	redis-cli -s "$T/redis.sock" ping | grep -q PONG || return 1
	redis-cli -s "$T/redis.sock" info commandstats | awk -F '[=,]' '/^cmdstat_set:/ { n = $2 } END { print n + 0 }'
}

# A server process of its own for each client: it is the one that is attached to, and psql counts the statements.
postgres() {
	local bin=/usr/lib/postgresql/15/bin backend
	if ! [ -x $bin/postgres ] || ! [ -x "$(command -v psql)" ]; then
		missing+=(postgres)
		return
	fi
	chmod 755 "$T"
	install -d -o postgres "$T/pg"
	setpriv --reuid=postgres --regid=postgres --clear-groups $bin/initdb -D "$T/pg/data" -A trust >initdb.log 2>&1 ||
		fail "initdb: $(tail -n 1 initdb.log)"
	start postgres err setpriv --reuid=postgres --regid=postgres --clear-groups $bin/postgres -D "$T/pg/data" -k "$T/pg" \
		-c listen_addresses= -c fsync=off
	wait_line postgres 'ready to accept connections'
	start psql out psql -X -q -A -t -h "$T/pg" -U postgres
	send psql 'select 1000000 + pg_backend_pid();'
	wait_line psql '^[0-9]+$'
	backend=$((line - 1000000))
	send psql 'create temp table t as select x, md5(x::text) as h from generate_series(1, 500) x;'
	start postgres-record err "$SCOPETRACE" record -p $backend -f 'postgres:pg_parse_query' -f 'postgres:Exec*' \
		-f 'postgres:heap_*' -f 'postgres:planner' --all -o server.scope
	wait_line postgres-record 'armed [0-9]+ of'
	for i in {1..50}; do send psql "select count(*), max(h) from t where x % $i = 0;"; done
	send psql 'select 1 / 0;'
	send psql "select 'end of it';"
	wait_line psql 'end of it'
	kill -INT "${pid[postgres-record]}"
	finish postgres-record
	expect_status 0 "record of postgres"
	[ "$(grep -c '|' psql.log)" = 50 ] || fail "postgres: other answers"
	grep -q '^500|' psql.log || fail "postgres: another count of all rows"
	calls_of server.scope pg_parse_query
	[ "$calls" = 52 ] || fail "postgres: $calls calls of pg_parse_query, 52 statements"
	send psql '\q'
	finish psql
	kill -INT "${pid[postgres]}"
	finish postgres
	expect_status 0 "postgres"
	say "postgres: 52 statements, one of them an error; pg_parse_query: $calls calls"
	done_count=$((done_count + 1))
}

if [ -n "${SCOPETRACE_LONG:-}" ]; then
	say "== servers"
	server redis redis_client redis_sets \
		'redis*:*Command redis*:db* redis*:lookupKey*' setCommand \
		redis-server --port 0 --unixsocket "$T/redis.sock" --save '' --daemonize no
	install -d nginx
	cat >nginx.conf <<END
daemon off; master_process off; pid $T/nginx.pid; error_log $T/nginx/error.log;
events { }
http {
	access_log off; client_body_temp_path nginx; proxy_temp_path nginx; fastcgi_temp_path nginx;
	uwsgi_temp_path nginx; scgi_temp_path nginx;
	server { listen unix:$T/nginx.sock; root $T; location /status { stub_status; } }
}
END
	server nginx nginx_client nginx_requests 'nginx:ngx_http_*' ngx_http_process_request nginx -p "$T" -c "$T/nginx.conf" -e "$T/nginx/error.log"
	postgres
fi

if [ ${#missing[@]} -gt 0 ]; then say "not installed, not tried: ${missing[*]}"; fi
say "$done_count programs: each as unwatched, each count right"
expect_nothing_left "$T/before" "packaged programs"
