//! What can be drawn over time of a node: figures with names.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use strait_core::delay::DelayPart;

use crate::span::grown;
use crate::{LinkSpan, Port, Snapshot, Span};

/// A counter of a service; nothing where there is none.
type Count = fn(&Snapshot) -> Option<u64>;

/// Figures by their names: `port line use`, `class voice delay`, `hf line b rate`, `dns asked`.
struct Figures<'a> {
    span: &'a Span<'a>,
    all: BTreeMap<String, f64>,
}

/// Figures of what passed: shares, bit/s, s, and things a second; of what is counted in one place
/// only, how much is there. What isn't known is missing. Three digits and one.
pub fn figures(span: &Span<'_>) -> BTreeMap<String, f64> {
    let mut figures = Figures {
        span,
        all: BTreeMap::new(),
    };
    for port in &span.last.ports {
        figures.port(port);
    }
    figures.classes();
    figures.services();
    let known = figures.all.into_iter().filter(|it| it.1.is_finite());
    known.map(|(name, value)| (name, rounded(value))).collect()
}

/// To four digits: a recording has many of them.
pub(crate) fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl Figures<'_> {
    fn put(&mut self, name: String, value: impl Into<f64>) {
        self.all.insert(name, value.into());
    }

    fn port(&mut self, port: &Port) {
        let (name, s) = (&port.name, self.span.s);
        let link = LinkSpan::new(port, self.span);
        self.put(format!("port {name} use"), link.busy);
        let in_bit_s = link.grown(|it| it.octets_in) * 8.0 / s;
        self.put(format!("port {name} in"), in_bit_s);
        self.put(format!("port {name} out"), link.octets_out * 8.0 / s);
        self.put(format!("port {name} damaged"), link.damaged());
        for near in &port.neighbours {
            let of = |port: &Port| {
                port.neighbours
                    .iter()
                    .find(|it| it.name == near.name)
                    .cloned()
            };
            let was = link.was.as_ref().and_then(of).map_or(0, |it| it.octets_out);
            let out_bit_s = grown(near.octets_out, was) * 8.0 / s;
            self.put(format!("near {name} {} out", near.name), out_bit_s);
        }
        if let Some(hop) = &port.hop {
            let repeated = link.grown(|it| it.hop.as_ref().map_or(0, |it| it.repeated));
            self.put(format!("hop {name} repeated"), repeated / s);
            self.put(format!("hop {name} window"), hop.window_octets as f64);
        }
        let was = link.was.as_ref().and_then(|it| it.hf.as_ref());
        for link in port.hf.iter().flat_map(|it| &it.neighbours) {
            let key = |what: &str| format!("hf {name} {} {what}", link.name);
            if let Some(rate) = &link.rate {
                self.put(key("rate"), rate.bit_s as f64);
                if let Some(snr_db) = rate.snr_db {
                    self.put(key("snr"), snr_db);
                }
            }
            self.put(key("lost"), link.lost);
            self.put(key("way"), link.under_way as f64);
            let was = was.and_then(|it| it.neighbours.iter().find(|it| it.name == link.name));
            if let Some(was) = was {
                self.put(key("own"), ((link.sent_s - was.sent_s) / s).clamp(0.0, 1.0));
                self.put(
                    key("its"),
                    ((link.heard_s - was.heard_s) / s).clamp(0.0, 1.0),
                );
            }
        }
    }

    fn classes(&mut self) {
        let s = self.span.s;
        for class in self.span.classes() {
            let key = |what: &str| format!("class {} {what}", class.class.name);
            if let Some(stay_s) = class.stay_s() {
                self.put(key("delay"), stay_s);
                for (part, mean_s) in DelayPart::ALL.into_iter().zip(class.parts_s) {
                    self.put(key(part.name()), mean_s);
                }
            }
            if let Some(lost) = class.lost() {
                self.put(key("loss"), lost);
            }
            self.put(key("packets"), class.packets / s);
            self.put(key("dropped"), class.dropped / s);
            self.put(key("queued"), class.class.queued_octets as f64);
            self.put(key("sent"), class.sent_octets * 8.0 / s);
            self.put(key("came"), class.delivered_octets * 8.0 / s);
        }
    }

    fn services(&mut self) {
        let (first, last, s) = (self.span.first(), self.span.last, self.span.s);
        if let Some(proxy) = &last.proxy {
            self.put("proxy open".into(), proxy.streams.open as f64);
            self.put("proxy partners_known".into(), proxy.partners_known as f64);
        }
        if let Some(echo) = &last.echo {
            self.put("echo open".into(), echo.streams.open as f64);
        }
        if let Some(dns) = &last.dns {
            self.put("dns known".into(), dns.known as f64);
        }
        if let Some(mail) = &last.mail {
            let lanes = [
                ("override", mail.override_here),
                ("flash", mail.flash_here),
                ("immediate", mail.immediate_here),
                ("priority", mail.priority_here),
                ("routine", mail.routine_here),
                ("deferred", mail.deferred_here),
            ];
            for (lane, here) in lanes {
                self.put(format!("mail {lane}_here"), here as f64);
            }
        }
        if let Some(olsr) = &last.olsr {
            self.put("olsr neighbours".into(), olsr.neighbours as f64);
            self.put("olsr routes".into(), olsr.routes as f64);
            self.put("olsr relays".into(), olsr.relays as f64);
        }
        let rates: [(&str, Count); 8] = [
            ("proxy octets", |it| Some(it.proxy.as_ref()?.octets)),
            ("proxy octets_line", |it| {
                Some(it.proxy.as_ref()?.octets_line)
            }),
            ("dns questions", |it| Some(it.dns.as_ref()?.questions)),
            ("dns asked", |it| Some(it.dns.as_ref()?.asked)),
            ("mail accepted", |it| Some(it.mail.as_ref()?.accepted)),
            ("mail relayed", |it| Some(it.mail.as_ref()?.relayed)),
            ("olsr changes", |it| Some(it.olsr.as_ref()?.changes)),
            ("olsr octets_out", |it| Some(it.olsr.as_ref()?.octets_out)),
        ];
        for (name, field) in rates {
            if let Some(now) = field(last) {
                let was = field(first).unwrap_or(0);
                self.put(name.into(), grown(now, was) / s);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{Class, Dns};

    fn said(at: u64) -> Snapshot {
        let mut class = Class {
            name: "voice".into(),
            packets: 10 * at,
            sent_octets: 1000 * at,
            queued_octets: 77,
            ..Class::default()
        };
        class.dropped.insert("aged".into(), at);
        let parts = &mut class.delay_parts_s;
        parts.add(DelayPart::Class, 10 * at * 300_000_000);
        parts.add(DelayPart::Line, 10 * at * 50_000_000);
        Snapshot {
            node: "a".into(),
            uptime_s: at as f64,
            ports: vec![Port {
                name: "line".into(),
                busy_s: 0.25 * at as f64,
                octets_out: 500 * at,
                frames_in: 9 * at,
                damaged: at,
                ..Port::default()
            }],
            classes: vec![class],
            dns: Some(Dns {
                known: 7,
                asked: 3 * at,
                ..Dns::default()
            }),
            ..Snapshot::default()
        }
    }

    #[test]
    fn figures_are_of_what_passed() {
        let history = [said(3), said(8)];
        let figures = figures(&Span::new(&history).unwrap());
        let expected = [
            ("port line use", 0.25),
            ("port line out", 4000.0),
            ("port line damaged", 0.1),
            ("class voice delay", 0.35),
            ("class voice class", 0.3),
            ("class voice line", 0.05),
            ("class voice loss", 0.090_91),
            ("class voice packets", 10.0),
            ("class voice dropped", 1.0),
            ("class voice queued", 77.0),
            ("class voice sent", 8000.0),
            ("dns known", 7.0),
            ("dns asked", 3.0),
        ];
        for (name, value) in expected {
            assert_eq!(figures.get(name), Some(&value), "{name}");
        }
        assert!(!figures.contains_key("mail accepted"));
    }

    #[test]
    fn a_class_in_which_nothing_ended_has_no_stay() {
        let still = [
            said(3),
            Snapshot {
                uptime_s: 8.0,
                ..said(3)
            },
        ];
        let figures = figures(&Span::new(&still).unwrap());
        assert!(!figures.contains_key("class voice delay"));
        assert!(!figures.contains_key("class voice loss"));
        assert_eq!(figures["class voice packets"], 0.0);
    }
}
