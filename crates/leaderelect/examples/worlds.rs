//! Electors in simulated trouble, one world a seed: partitions and machines that are suspended, processes that are paused or die,
//! requests that are lost, slow or repeated. How often does the work of two overlap?
//!
//! ```text
//! cargo run --release --example worlds -- --worlds 10000
//! ```
//!
//! What runs is what is shipped; with `--client-go`, it is a model of client-go's elector. The last line is what it cost, in JSON.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program that talks to its user")]

use std::panic::{catch_unwind, resume_unwind, set_hook, take_hook};
use std::time::Instant;

use it::world::weather::{NIGHT, many, survive};
use it::world::{Chaos, Share, Tally};
use serde_json::json;

/// The worlds of the tests.
#[allow(dead_code, reason = "the tests use more of it")]
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
                other => return Err(format!("{other:?} is none of --worlds NUMBER, --client-go and --quick")),
            }
        }
        Ok(this)
    }
}

/// What has happened in some worlds.
#[derive(Default)]
struct Seen {
    /// Worlds in which the permitted work of two overlapped.
    overlaps: usize,
    /// Partitions and suspends in the others.
    cuts: usize,
    terms: usize,
    /// Effects that slept with their machine, and went on while another one led.
    outlived: usize,
}

fn main() -> Result<(), String> {
    let args = Args::read()?;
    let (client_go, whose) =
        if args.client_go { (Share::All, "client-go's elector, as a model") } else { (Share::None, "ours") };
    // Trouble for two minutes and calm for one, each world with partitions and suspends.
    let night = |seed: u64| Chaos { watches: seed.is_multiple_of(2), client_go, ..NIGHT };
    // Two leaders are what is counted here, and any other broken rule ends the program.
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        if !panic.payload().downcast_ref::<String>().is_some_and(|told| is_overlap(told)) {
            usual(panic);
        }
    }));
    let begun = Instant::now();
    let (first, seen) = many(args.worlds, |seed| one(night(seed), seed));
    let seen = seen.into_iter().fold(Seen::default(), Seen::and);
    let Seen { overlaps, cuts, terms, outlived } = seen;
    println!("{whose}: {} worlds from seed {first}, {terms} terms, {cuts} partitions and suspends", args.worlds);
    println!("the permitted work of two overlapped in {overlaps}");
    let mut figures =
        json!({"overlaps of permitted work": overlaps, "partitions and suspends": cuts, "worlds": args.worlds});
    // The model of client-go's has none.
    if !args.client_go {
        println!("{outlived} effects slept with their machine, and went on while another one led");
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
        Err(broken) if broken.downcast_ref::<String>().is_some_and(|told| is_overlap(told)) => {
            Seen { overlaps: 1, ..Seen::default() }
        }
        Err(broken) => resume_unwind(broken),
    }
}

/// The rule that was broken is that at most one leads.
fn is_overlap(told: &str) -> bool {
    told.starts_with("S1:")
}
