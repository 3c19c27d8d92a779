//! The queues of classes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

use super::Queues;
use crate::leaf::config::{FqCodelConfig, SfqConfig};
use crate::leaf::{FAIR_SMALL_OCTETS, FAIR_WAIT, QueueConfig};
use crate::policy::Class;

/// The longest packet that queues are made for.
pub(super) const MTU_OCTETS: u64 = 1500;

/// The queue of a class, in the kernel's words.
pub(super) fn queue(
    class: &Class,
    line_bit_s: u64,
    queues: Queues,
    notes: &mut Vec<String>,
) -> String {
    let mut note = |text: &str| notes.push(format!("class `{}`: {text}", class.name));
    if let Some(age) = class.age {
        let ms = age.as_millis();
        note(&format!(
            "the kernel has no limit on age ({ms} ms): packets wait as long as they have to"
        ));
    }
    if class.queue.absorbs_repeats() {
        note("the kernel sends repeats of TCP segments that still wait");
    }
    if class.queue.thins_acks() {
        note("the kernel sends superseded TCP acknowledgements (CAKE's `ack-filter` is similar)");
    }
    let packets = class.packets;
    match (&class.queue, queues) {
        (QueueConfig::Fifo(_), _) => fifo(class, &mut note),
        (QueueConfig::Wred(_), _) => {
            note("the kernel has no early drop by code point: its full queue drops any new packet");
            format!("pfifo limit {packets}")
        }
        (_, Queues::Plain | Queues::PlainBands) => {
            note("its flows take no turns: first come, first served");
            fifo(class, &mut note)
        }
        (QueueConfig::Fair(_), Queues::Near) => {
            note("flows that wait for 30 s lose a packet at times (CoDel); here they make room");
            note_octets(class, &mut note);
            let target_us = FAIR_WAIT.as_micros();
            format!(
                "fq_codel limit {packets} quantum {FAIR_SMALL_OCTETS} target {target_us}us interval \
                 {target_us}us noecn"
            )
        }
        (QueueConfig::Sfq(config), Queues::Near) => {
            note_octets(class, &mut note);
            sfq(config, packets)
        }
        (QueueConfig::FqCodel(config), Queues::Near) => {
            note_octets(class, &mut note);
            if config.target.is_none() || config.interval.is_none() {
                note("CoDel's target and interval stay those of the line's present rate");
            }
            fq_codel(config, packets, line_bit_s)
        }
    }
}

fn fifo(class: &Class, note: &mut impl FnMut(&str)) -> String {
    match class.octets {
        Some(octets) if octets < u64::from(class.packets) * MTU_OCTETS => {
            note("only its limit of octets is kept, not that of packets");
            format!("bfifo limit {octets}b")
        }
        Some(_) | None => format!("pfifo limit {}", class.packets),
    }
}

fn sfq(config: &SfqConfig, packets: u32) -> String {
    let mut text = format!(
        "sfq limit {packets} flows {} depth {} divisor {}",
        config.flows, config.depth, config.buckets
    );
    if let Some(quantum) = config.quantum {
        let _ = write!(text, " quantum {}", quantum.0);
    }
    if let Some(perturb) = config.perturb {
        let _ = write!(text, " perturb {}", perturb.0.as_secs().max(1));
    }
    if config.head_drop {
        text.push_str(" headdrop");
    }
    text
}

fn fq_codel(config: &FqCodelConfig, packets: u32, line_bit_s: u64) -> String {
    let mut text = format!("fq_codel limit {packets} flows {}", config.flows);
    if let Some(quantum) = config.quantum {
        let _ = write!(text, " quantum {}", quantum.0);
    }
    let (target, interval) = config.times(line_bit_s, MTU_OCTETS as u32);
    let _ = write!(text, " target {}us", target.as_micros());
    let _ = write!(text, " interval {}us", interval.as_micros());
    text.push_str(if config.ecn { " ecn" } else { " noecn" });
    text
}

fn note_octets(class: &Class, note: &mut impl FnMut(&str)) {
    if class.octets.is_some() {
        note("its limit of octets isn't kept, only that of packets");
    }
}
