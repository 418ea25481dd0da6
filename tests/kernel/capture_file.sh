#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The capture file: another program reads it by its man page; recorders that are killed, and file systems that are full or
# fail, leave a file that can be read up to its last whole chunk, and nothing else.
. "$(dirname "$0")/lib.sh"

need "$SCOPETRACE" "$O/targets/calls" "$O/targets/scopes" "$O/targets/numbers" "$O/targets/demo"
HOOKS=(-f outer -f middle -f inner)
kills=100

# The chunks of a file by the page: $end of the last whole one, $rest behind it, whether there is a $footer.
measure() { read -r end rest footer < <(python3 "$HERE/read_capture.py" --whole "$1") || fail "$1 is damaged"; }

# expect_cut FILE WHAT: it is read up to its last whole chunk, which is said, with what is missing.
expect_cut() {
	measure "$1"
	[ "$footer" = 0 ] || fail "$2: it has a footer"
	run "$SCOPETRACE" report "$1"
	expect_status 1 "$2: report"
	expect_text "$T/run.out" "cut short: .* at byte $end; $rest bytes behind .* later than [0-9.]+ s is missing" "$2: report"
	expect_text "$T/run.out" "NOT BALANCED: the file was cut short after $end bytes, [0-9.]+ s after" "$2: report"
	expect_text "$T/run.err" "cut short after byte $end" "$2: report"
}

say "== read by its man page"
for option in "" --compress --compress=9; do
	# shellcheck disable=SC2086 # no option, or one
	run "$SCOPETRACE" record $option "${HOOKS[@]}" -o "$T/page.scope" -- \
		"$O/targets/calls" --threads 3 --calls 1500 --rate 0 --manual
	expect_status 0 "record $option"
	run "$SCOPETRACE" report "$T/page.scope" --json
	expect_status 0 "report of record $option"
	mv "$T/run.out" "$T/page.json"
	python3 "$HERE/read_capture.py" "$T/page.scope" --report "$T/page.json" >"$T/page.out" ||
		fail "record $option: $(cat "$T/page.out")"
	say "$option: $(stat -c %s "$T/page.scope") bytes; $(tail -n 1 "$T/page.out")"
	size=${size:-$(stat -c %s "$T/page.scope")}
	[ -z "$option" ] || [ "$(stat -c %s "$T/page.scope")" -lt $((size / 2)) ] || fail "$option makes it no smaller"
done
run "$SCOPETRACE" record --compress=0 -p $$
expect_status 2 "a level that there is not"
expect_text "$T/run.err" 'level from 1' "a level that there is not"
run env SCOPE_RINGS=1 SCOPE_SLOTS=64 "$SCOPETRACE" record -o "$T/lap.scope" -- "$O/targets/scopes" 2 50000
run "$SCOPETRACE" report "$T/lap.scope" --json
mv "$T/run.out" "$T/lap.json"
python3 "$HERE/read_capture.py" "$T/lap.scope" --report "$T/lap.json" >"$T/lap.out" || fail "losses: $(cat "$T/lap.out")"
say "losses: $(tail -n 1 "$T/lap.out")"
python3 "$HERE/read_capture.py" "$HERE/../golden/capture-1.0.scope" >"$T/old.out" || fail "version 1.0: $(cat "$T/old.out")"

say "== killed at $kills moments"
snapshot "$T/before"
start demo out "$O/targets/demo"
wait_line demo '^demo: pid ([0-9]+)'
demo=${BASH_REMATCH[1]}
start numbers out "$O/targets/numbers" 3
wait_line numbers '^pid ([0-9]+)$'
numbers=${BASH_REMATCH[1]}
# Some are killed while a chunk is being written, which takes a while on a slow file system.
unshare --mount --propagation private python3 - "$HERE" "$SCOPETRACE" "$T" "$kills" "$demo" "$numbers" <<'KILL' ||
import concurrent.futures, os, random, re, subprocess, sys, time
here, scopetrace, folder, kills, demo, numbers = sys.argv[1], *sys.argv[2:4], *map(int, sys.argv[4:])
sys.path.insert(0, here)
from read_capture import Capture

def size(path):
    return os.path.getsize(path) if os.path.exists(path) else 0

def kill_one(what, path, i, least, pause):
    """The length that can be read, and what is behind it; None if there is no file, or no header."""
    if os.path.exists(path):
        os.unlink(path)
    recorder = subprocess.Popen([scopetrace, "record", *what, "-o", path] + ["--compress"] * (i % 3 == 0),
                                stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while size(path) < least:
        assert time.monotonic() < until and recorder.poll() is None, recorder.stderr.read()
        time.sleep(0.001)
    time.sleep(pause)
    recorder.kill()
    recorder.communicate()
    if not os.path.exists(path):
        return None
    report = subprocess.run([scopetrace, "report", path], capture_output=True, text=True)
    assert report.returncode == 1, report
    capture = Capture(path)
    if not capture.next_chunk():
        assert re.search("it is empty|inside its header", report.stderr), report
        return None
    capture = Capture(path).walk()
    end, rest = capture.end, len(capture.data) - capture.end
    assert not capture.footer
    assert f"at byte {end}; {rest} bytes behind" in report.stdout, (end, rest, report)
    assert re.search(rf"NOT BALANCED: the file was cut short after {end} bytes, [0-9.]+ s after", report.stdout), report
    assert f"cut short after byte {end}" in report.stderr, report
    return end, rest

def kill_all(what, name, numbers):
    """One in three compressed. Some are killed before they have begun, most later: within the first chunks, in the midst
    of one, or after a second, when they are written out."""
    slow, chance = os.path.join(folder, f"slow-{name}"), random.Random(f"20261130 {name}")
    plain = os.path.join(folder, f"killed-{name}.scope")
    os.mkdir(slow)
    server = subprocess.Popen([sys.executable, os.path.join(here, "failing_fs.py"), slow, "slow"],
                              stdout=subprocess.PIPE, text=True)
    files = []
    try:
        assert server.stdout.readline() == "mounted\n"
        for i in numbers:
            if i % 5 == 2:
                files.append(kill_one(what, os.path.join(slow, "a.scope"), i, chance.randrange(4096, 61440), 0))
            else:
                files.append(kill_one(what, plain, i, i % 5 > 0, chance.random() * (1.5 if i % 10 == 9 else 0.1)))
    finally:
        subprocess.run(["umount", "--lazy", slow])
        server.wait()
    return files

# Hooked calls with manual scopes, and these alone, which takes less time.
hooked = ["-p", str(demo), "-f", "submit_draw_call", "-f", "solve_contacts"]
with concurrent.futures.ThreadPoolExecutor(3) as workers:
    jobs = [workers.submit(kill_all, hooked, "first", range(kills // 4)),
            workers.submit(kill_all, hooked, "second", range(kills // 4, kills // 2)),
            workers.submit(kill_all, ["-p", str(numbers)], "manual", range(kills // 2))]
files = [file for job in jobs for file in job.result() if file]
inside = sum(rest > 0 for _, rest in files)
ends = {end for end, _ in files}
print(f"{len(files)} of {kills} had begun their file, {inside} of these ended inside a chunk; {len(ends)} lengths, up to {max(ends)}")
assert len(files) >= kills / 2 and len(ends) > kills / 10 and max(ends) > 60000 and inside
KILL
	fail "what killed recorders left"
kill -INT "$demo"
finish demo
expect_status 0 "the demonstration"
send numbers stop
finish numbers
expect_nothing_left "$T/before" "killed recorders"

# In a mount namespace of its own: fill SIZE ERROR COMMAND...   a file system of that size in $T/full; what was written
# comes out as $T/full.scope, and the exit status of the command is in $status.
cat >"$T/fill.sh" <<'FILL'
size=$1 error=$2 T=$3 here=$4
shift 4
mkdir -p "$T/full"
if [ "$error" = ENOSPC ]; then
	mount -t tmpfs -o size="$size" tmpfs "$T/full" || exit 77
else
	rm -f "$T/mounted" # of the time before
	python3 "$here/failing_fs.py" "$T/full" "$size" "$error" >"$T/mounted" &
	server=$!
	until grep -qs mounted "$T/mounted"; do kill -0 $server || exit 77; sleep 0.02; done
fi
"$@"
status=$?
cp "$T/full/a.scope" "$T/full.scope"
stat -f -c %f "$T/full" >"$T/full.free"
umount "$T/full"
[ "$error" = ENOSPC ] || wait $server
exit $status
FILL
fill() {
	local size=$1 error=$2
	shift 2
	rm -f "$T/full.scope"
	run unshare --mount --propagation private bash "$T/fill.sh" "$size" "$error" "$T" "$HERE" "$@"
	[ "$status" != 77 ] || fail "cannot mount: $(cat "$T/run.err")"
}

# What it must say and leave, whatever failed.
expect_failed() {
	expect_text "$T/run.err" "writing the capture .*full/a.scope failed after [0-9]+ bytes: $2; .*choose another place" "$1"
	[ "$(grep -c 'error: writing the capture' "$T/run.err")" = 1 ] || fail "$1: not said once"
	expect_cut "$T/full.scope" "$1"
	[ "$rest" = 0 ] || fail "$1: $rest bytes of an unfinished chunk are left"
	[ "$end" -ge 100000 ] || fail "$1: no more than $end bytes were written"
	run "$SCOPETRACE" export "$T/full.scope" -t csv -o "$T/cut.csv"
	expect_status 0 "$1: export"
	say "$1: $end bytes can be read"
}

for failing in "256k ENOSPC No space left on device" "300000 EIO Input/output error" "262144 ENOSPC No space left on device"; do
	read -r size error words <<<"$failing"
	say "== $error at $size"
	snapshot "$T/before"
	fill "$size" "$error" "$SCOPETRACE" record "${HOOKS[@]}" -o "$T/full/a.scope" -- \
		"$O/targets/calls" --threads 2 --calls 3000 --rate 0 --manual
	expect_status 125 "$error with a command"
	expect_text "$T/run.out" '^truth .*"outer": 6000' "the command goes on to its end"
	expect_failed "$error with a command" "$words"

	start program out "$O/targets/calls" --threads 1 --calls 1000000000 --rate 0
	fill "$size" "$error" "$SCOPETRACE" record "${HOOKS[@]}" -o "$T/full/a.scope" -p "${pid[program]}"
	expect_status 1 "$error of a running process"
	expect_failed "$error of a running process" "$words"
	kill -0 "${pid[program]}" || fail "the program is gone"
	kill -KILL "${pid[program]}"
	wait "${pid[program]}" 2>/dev/null
	pid[program]=
	expect_nothing_left "$T/before" "$error"
done

say "== a full disk and a compressed file"
fill 256k ENOSPC "$SCOPETRACE" record "${HOOKS[@]}" --compress -o "$T/full/a.scope" -- \
	"$O/targets/calls" --threads 2 --calls 12000 --rate 0
expect_status 125 "a compressed file"
expect_failed "a compressed file" "No space left on device"

say "== a limit of the file's size"
run bash -c 'ulimit -f 200; exec "$@"' limit "$SCOPETRACE" record "${HOOKS[@]}" -o "$T/full.scope" -- \
	"$O/targets/calls" --threads 2 --calls 3000 --rate 0
expect_status 125 "a limit"
sed -i "s|$T/full.scope|$T/full/a.scope|" "$T/run.err"
expect_failed "a limit" "File too large"
