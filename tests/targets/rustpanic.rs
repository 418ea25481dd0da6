// SPDX-License-Identifier: GPL-2.0-or-later
// Rust panics through traced frames: outer() catches what thrower() raises and middle() is unwound by; what is dropped
// on the way is counted.
//
//	rustpanic [--wait-go] [ROUNDS]		10000 by default
use std::io::Write;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

struct Account {
    name: &'static str,
    entries: AtomicI64,
    returns: AtomicI64,
}

impl Account {
    const fn new(name: &'static str) -> Account {
        Account { name, entries: AtomicI64::new(0), returns: AtomicI64::new(0) }
    }
    // Not as one locked instruction, which might come first in a function: the kernel refuses a probe there.
    fn enter(&self) {
        self.entries.store(self.entries.load(Relaxed) + 1, Relaxed);
    }
    fn leave(&self) {
        self.returns.store(self.returns.load(Relaxed) + 1, Relaxed);
    }
}

static OUTER: Account = Account::new("outer");
static MIDDLE: Account = Account::new("middle");
static THROWER: Account = Account::new("thrower");
static DROPPED: AtomicI64 = AtomicI64::new(0);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.store(DROPPED.load(Relaxed) + 1, Relaxed);
    }
}

#[no_mangle]
#[inline(never)]
pub fn thrower(i: i64) {
    THROWER.enter();
    if i % 2 == 1 {
        panic!("odd");
    }
    THROWER.leave();
}

#[no_mangle]
#[inline(never)]
pub fn middle(i: i64) {
    let _guard = Guard;
    MIDDLE.enter();
    thrower(i);
    MIDDLE.leave();
}

#[no_mangle]
#[inline(never)]
pub fn outer(i: i64) -> bool {
    OUTER.enter();
    let caught = std::panic::catch_unwind(|| middle(i)).is_err();
    OUTER.leave();
    caught
}

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) == Some("--wait-go") {
        println!("pid {}", std::process::id());
        std::io::stdout().flush().unwrap();
        if std::io::stdin().read_line(&mut String::new()).unwrap_or(0) == 0 {
            std::process::exit(2);
        }
        arguments.remove(0);
    }
    let rounds: i64 = arguments.first().map_or(10000, |text| text.parse().unwrap());
    std::panic::set_hook(Box::new(|_| {}));
    let caught = (0..rounds).filter(|&i| outer(i)).count() as i64;
    print!("truth");
    for account in [&OUTER, &MIDDLE, &THROWER] {
        print!(" {}={}/{}", account.name, account.entries.load(Relaxed), account.returns.load(Relaxed));
    }
    println!(" caught={} dropped={}", caught, DROPPED.load(Relaxed));
    std::process::exit((caught != rounds / 2 || DROPPED.load(Relaxed) != rounds) as i32);
}
