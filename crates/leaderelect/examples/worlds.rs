//! Simulates electors under faults, and counts the simulated clusters that have two leaders at the same time. Each seed
//! generates one simulated cluster, called a world. In a world, machines are partitioned and suspended, processes are
//! paused and killed, and requests are lost, delayed and duplicated.
//!
//! ```text
//! cargo run --release --example worlds -- --worlds 10000
//! ```
//!
//! With `--client-go`, simulates client-go's elector instead of this crate's elector. The last line of the output is
//! the result as JSON.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a command-line program")]

use std::panic::{catch_unwind, resume_unwind, set_hook, take_hook};
use std::time::Instant;

use it::world::seeds::many;
use it::world::weather::{NIGHT, survive};
use it::world::{Chaos, Share, Tally};
use serde_json::json;

/// The modules of the simulated clusters, which the crate's tests also use.
#[allow(dead_code, reason = "only the tests use all of it")]
#[path = "../tests/it"]
mod it {
    pub(crate) mod client_go;
    pub(crate) mod world;
}

struct Args {
    worlds: u64,
    client_go: bool,
}

impl Args {
    fn read() -> Result<Self, String> {
        let mut this = Self { worlds: 40, client_go: false };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--worlds" => {
                    let worlds = args.next().and_then(|worlds| worlds.parse().ok());
                    this.worlds = worlds.ok_or("--worlds takes a number")?;
                }
                "--quick" => this.worlds = this.worlds.min(100),
                "--client-go" => this.client_go = true,
                other => {
                    return Err(format!(
                        "unknown argument {other:?}: expected --worlds NUMBER, --client-go or --quick"
                    ));
                }
            }
        }
        Ok(this)
    }
}

#[derive(Default)]
struct Seen {
    /// The number of worlds with two leaders at the same time.
    overlaps: usize,
    /// The number of partitions and suspends in worlds without overlapping leaders.
    cuts: usize,
    terms: usize,
    /// The number of requests that were in flight both when the leader's machine was suspended and while another
    /// contender led.
    outlived: usize,
}

fn main() -> Result<(), String> {
    let args = Args::read()?;
    let (client_go, subject) =
        if args.client_go { (Share::All, "a model of client-go's elector") } else { (Share::None, "pintle") };
    // Each world runs for two minutes with faults, including partitions and suspends, and then for one minute without
    // faults.
    let night = |seed: u64| Chaos { watches: seed.is_multiple_of(2), client_go, ..NIGHT };
    // Count overlapping leaders, and panic if any other rule of the simulation is violated.
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        if !panic.payload().downcast_ref::<String>().is_some_and(|message| is_overlap(message)) {
            usual(panic);
        }
    }));
    let begun = Instant::now();
    let (first, seen) = many(args.worlds, |seed| one(night(seed), seed));
    let seen = seen.into_iter().fold(Seen::default(), Seen::and);
    let Seen { overlaps, cuts, terms, outlived } = seen;
    println!("{subject}: {} worlds from seed {first}, {terms} terms, {cuts} partitions and suspends", args.worlds);
    println!("the permitted work of two leaders overlapped in {overlaps}");
    let mut figures =
        json!({"overlaps of permitted work": overlaps, "partitions and suspends": cuts, "worlds": args.worlds});
    // The simulated client-go elector runs work that sends no requests.
    if !args.client_go {
        println!("{outlived} effects slept during a suspend and resumed while another contender led");
        figures["effects that slept and met another leader"] = outlived.into();
    }
    let wall = begun.elapsed().as_nanos() as f64;
    println!("{}", json!({"wall_ns": wall, "operations": args.worlds, "figures": figures}));
    Ok(())
}

impl Seen {
    fn and(self, other: Self) -> Self {
        let (overlaps, cuts) = (self.overlaps + other.overlaps, self.cuts + other.cuts);
        Self { overlaps, cuts, terms: self.terms + other.terms, outlived: self.outlived + other.outlived }
    }
}

fn one(chaos: Chaos, seed: u64) -> Seen {
    match catch_unwind(|| survive(chaos, seed)) {
        Ok(tally) => {
            let Tally { cuts, terms, outlived, .. } = tally;
            Seen { overlaps: 0, cuts, terms, outlived }
        }
        Err(broken) if broken.downcast_ref::<String>().is_some_and(|message| is_overlap(message)) => {
            Seen { overlaps: 1, ..Seen::default() }
        }
        Err(broken) => resume_unwind(broken),
    }
}

/// Returns `true` if the violated rule is "at most one contender leads at a time".
fn is_overlap(message: &str) -> bool {
    message.starts_with("S1:")
}
