//! Both ends beside another implementation's: streams of every kind, compressed here and
//! decompressed there, and the other way round. The other program is what `STRAIT_ROHC_PEER` names,
//! or `rohc/peer/peer.c` where `pkg-config` finds its library. Without either the test says so and
//! checks nothing.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::traffic::Dice;
use crate::traffic::streams::{Ids, Load, Recipe, Stream, Wander};
use strait_link::rohc::{Cids, Peer, Received, Settings};

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// The octets that a word of an answer stands for; none for a dash.
fn octets(word: &str) -> Vec<u8> {
    let word = word.trim_matches('-').as_bytes();
    let pairs = word.chunks_exact(2);
    let text = pairs.map(|pair| str::from_utf8(pair).expect("text"));
    text.map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"))
        .collect()
}

/// The other program.
struct Other {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Other {
    fn start() -> Option<Self> {
        let named = std::env::var_os("STRAIT_ROHC_PEER").map(PathBuf::from);
        let program = named.or_else(build)?;
        let mut child = Command::new(&program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Some(Self {
            child,
            stdin,
            stdout,
        })
    }

    fn ask(&mut self, line: &str) -> String {
        writeln!(self.stdin, "{line}").expect("it reads");
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).expect("it writes");
        assert!(answer.ends_with('\n'), "it died of {line}");
        answer.truncate(answer.len() - 1);
        answer
    }

    fn begin(&mut self, optimistic: bool, settings: &Settings) {
        let mode = if optimistic { 'o' } else { 'u' };
        let (kind, max) = match settings.cids {
            Cids::Small(max) => ("small", u16::from(max)),
            Cids::Large(max) => ("large", max),
        };
        let answer = self.ask(&format!("new {mode} {kind} {max} {}", settings.repeats));
        assert_eq!(answer, "ok");
    }

    fn compress(&mut self, packet: &[u8]) -> Vec<u8> {
        octets(&self.ask(&format!("c {}", hexadecimal(packet))))
    }

    /// The packet, and what its compressor is to hear.
    fn decompress(&mut self, line: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let answer = self.ask(&format!("d {}", hexadecimal(line)));
        let mut words = answer.split(' ').map(octets);
        let mut word = || words.next().expect("three words");
        (word(), word())
    }

    fn hear(&mut self, feedback: &[u8]) {
        self.ask(&format!("f {}", hexadecimal(feedback)));
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It ends with its input; that it doesn't wait for more is all that is asked here.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The program made of `peer.c`, if its library is there.
fn build() -> Option<PathBuf> {
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "rohc"])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let flags = String::from_utf8(flags.stdout).expect("text");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rohc_peer");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rohc/peer/peer.c");
    let built = Command::new("cc")
        .args(["-O1", "-o"])
        .args([&program, &source])
        .args(flags.split_whitespace())
        .status();
    assert!(built.is_ok_and(|status| status.success()), "peer.c builds");
    Some(program)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    None,
    /// One in twenty, each for itself.
    Chance,
    /// As many, twelve in a row on average.
    Bursts,
}

impl Loss {
    /// Whether the next packet is lost, after one that `was`.
    fn takes(self, was: bool, dice: &mut Dice) -> bool {
        match self {
            Self::None => false,
            Self::Chance => dice.happens(0.05),
            Self::Bursts if was => !dice.happens(1.0 / 12.0),
            Self::Bursts => dice.happens(0.05 / 12.0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// Compressed here, decompressed there.
    Ours,
    /// The other way round.
    Theirs,
}

/// What became of a stream's packets.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    arrived: usize,
    delivered: usize,
    wrong: usize,
}

/// One run of a stream.
#[derive(Clone, Copy, Debug)]
struct Run {
    recipe: Recipe,
    direction: Direction,
    optimistic: bool,
    loss: Loss,
    packets: usize,
}

impl Run {
    fn go(self, other: &mut Other) -> Tally {
        let settings = Settings {
            feedback: self.optimistic,
            ..Settings::new(Cids::Small(15))
        };
        let mut ours = Peer::new(settings);
        other.begin(self.optimistic, &settings);
        let (mut dice, mut chance) = (Dice(11), Dice(12));
        let mut stream = Stream::new(self.recipe, 1, &mut dice);
        let mut tally = Tally::default();
        let mut lost = false;
        for _ in 0..self.packets {
            let packet = stream.next(&mut dice);
            let line = match self.direction {
                Direction::Ours => {
                    let mut line = Vec::new();
                    ours.compress_alone(0, &packet, &mut line);
                    line
                }
                Direction::Theirs => other.compress(&packet),
            };
            lost = self.loss.takes(lost, &mut chance);
            if lost {
                continue;
            }
            let (out, feedback) = self.arrive(&line, &mut ours, other);
            tally.arrived += 1;
            if !out.is_empty() {
                tally.delivered += 1;
                tally.wrong += usize::from(out != packet);
            }
            if self.optimistic && !feedback.is_empty() && !self.loss.takes(false, &mut chance) {
                self.answer(&feedback, &mut ours, other);
            }
        }
        tally
    }

    /// The packet of `line`, none if it is refused, and what is to be told of it.
    fn arrive(self, line: &[u8], ours: &mut Peer, other: &mut Other) -> (Vec<u8>, Vec<u8>) {
        if self.direction == Direction::Ours {
            return other.decompress(line);
        }
        let (mut out, mut feedback) = (Vec::new(), Vec::new());
        let received = ours.decompress(line, &mut out);
        assert_eq!(received.is_ok(), !out.is_empty());
        ours.put_feedback(&mut feedback);
        (out, feedback)
    }

    fn answer(self, feedback: &[u8], ours: &mut Peer, other: &mut Other) {
        match self.direction {
            Direction::Ours => {
                let heard = ours.decompress(feedback, &mut Vec::new());
                assert_eq!(heard, Ok(Received::Nothing));
            }
            Direction::Theirs => other.hear(feedback),
        }
    }

    /// The share of what arrives that may be refused, in thousandths.
    ///
    /// A change is said in four packets or more, so that a context falls behind once in 160,000
    /// packets where each is lost for itself. What is refused then is what follows a gap that low
    /// bits don't tell, and what a decompressor refuses until it is sure again. A burst takes all
    /// packets that say a change, and without a way back the next ones come with the refresh.
    fn refused_max(self) -> usize {
        match (self.loss, self.optimistic) {
            (Loss::None, _) => 0,
            (Loss::Chance, _) => 20,
            (Loss::Bursts, true) => 60,
            (Loss::Bursts, false) => 150,
        }
    }

    /// Whether the other implementation is known to do wrong by itself.
    fn excused(self) -> bool {
        let theirs = self.direction == Direction::Theirs;
        let Recipe {
            load,
            carrier,
            ids,
            wander,
        } = self.recipe;
        // Its timestamps are wrong where sequence numbers wrap.
        let wraps = load == Load::Wraps && !theirs;
        // Once asked, it leaves lists of extension headers out of IR packets.
        let lists = theirs && carrier.has_list() && self.loss != Loss::None;
        // It says a segment without ACK by a format that has none such.
        let no_ack = theirs && load == Load::Dialogue && ids == Ids::Zero;
        // Once TCP's context is confirmed, it doesn't repeat the bit that forbids fragments.
        let bit = theirs && load == Load::BulkStamps && wander == Wander::FragmentBitFlaps;
        wraps || self.optimistic && (lists || no_ack || bit)
    }

    /// What is wrong with what came of it.
    fn complaint(self, tally: Tally) -> Option<String> {
        let refused = tally.arrived - tally.delivered;
        let wrong = tally.wrong > 0 && self.loss != Loss::Bursts;
        let fails = wrong || refused * 1000 > tally.arrived * self.refused_max();
        (fails && !self.excused()).then(|| {
            let mode = if self.optimistic { "O" } else { "U" };
            let (name, direction, loss) = (self.recipe.name(), self.direction, self.loss);
            format!("{name} {direction:?} {mode} {loss:?}: {tally:?}")
        })
    }
}

#[test]
fn streams_of_every_kind_come_back_from_the_other_implementation() {
    let Some(mut other) = Other::start() else {
        println!("not run: no STRAIT_ROHC_PEER, and pkg-config finds no rohc");
        return;
    };
    let recipes = Recipe::all();
    assert!(recipes.len() >= 249);
    let mut complaints = Vec::new();
    for recipe in recipes {
        for direction in [Direction::Ours, Direction::Theirs] {
            for optimistic in [false, true] {
                for (loss, packets) in [(Loss::None, 300), (Loss::Chance, 600), (Loss::Bursts, 600)]
                {
                    let run = Run {
                        recipe,
                        direction,
                        optimistic,
                        loss,
                        packets,
                    };
                    complaints.extend(run.complaint(run.go(&mut other)));
                }
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Writes what the other implementation makes of a choice of streams, as `vectors/rohc` has it, to
/// the file that `STRAIT_ROHC_RECORD` names.
#[test]
fn what_it_compresses_can_be_recorded() {
    let Some(path) = std::env::var_os("STRAIT_ROHC_RECORD") else {
        return;
    };
    let mut other = Other::start().expect("the other program");
    let mut text = String::from(
        "{\"stream\":\"every-kind\",\"mode\":\"U\",\"max_cid\":15,\"cid_type\":\"small\",\
         \"notes\":\"many streams, each from the line with its name on\"}\n",
    );
    for recipe in Recipe::choice() {
        let settings = Settings::new(Cids::Small(15));
        other.begin(false, &settings);
        let mut dice = Dice(21);
        let mut stream = Stream::new(recipe, 1, &mut dice);
        stream.changes = 0.12;
        stream.flow.segment = 24;
        text += &format!("{{\"stream\":\"{}\"}}\n", recipe.name());
        for _ in 0..20 {
            let packet = stream.next(&mut dice);
            let line = other.compress(&packet);
            let (ip, rohc) = (hexadecimal(&packet), hexadecimal(&line));
            text += &format!("{{\"ip\":\"{ip}\",\"rohc\":\"{rohc}\"}}\n");
        }
    }
    std::fs::write(path, text).expect("a file to write");
}
