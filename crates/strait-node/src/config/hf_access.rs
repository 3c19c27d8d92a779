//! How a station shares the air: by slots of stations, or by listening before it transmits.

use serde::{Deserialize, Serialize};
use strait_core::Duration;
use strait_core::units::{Octets, Time};
use strait_s5066::{Access, Address, Csma, Order, Slots};

use super::hf::{HfConfig, first_fault, outside};

/// Turns by slots: a station that owes an answer gives it at once. All else waits for the station's
/// own slot, counted from the end of the last transmission.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SlotsConfig {
    /// This station's number, another one for each; if absent, one more than the last number of
    /// its address.
    #[serde(default)]
    pub number: Option<u32>,
    /// The length of a slot; 3 s if absent.
    #[serde(default)]
    pub length: Option<Time>,
    /// The shortest transmission; 1 s if absent.
    #[serde(default)]
    pub turn_min: Option<Time>,
    /// Octets that a modem is given ahead of time; 2000 if absent.
    #[serde(default)]
    pub committed: Option<Octets>,
    /// How long what arrived takes to who it is for; 500 ms if absent.
    #[serde(default)]
    pub delivery: Option<Time>,
    /// How long the client of packets takes to find the next one, for each that waits; no time if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Time>,
}

impl SlotsConfig {
    fn slots(&self, own: Address) -> Slots {
        let time = |time: Option<Time>, or: Duration| time.map_or(or, |it| it.0);
        Slots {
            length: time(self.length, Duration::from_secs(3)),
            number: self.number.unwrap_or_else(|| (own.bits() & 0xff) + 1),
            turn_min: time(self.turn_min, Duration::from_secs(1)),
            delivery: time(self.delivery, Duration::from_millis(500)),
            committed_octets: self.committed.map_or(2000, |octets| octets.0 as usize),
        }
    }
}

/// Who may begin when. For a net of many, stations listen before they transmit: the first slot
/// after a transmission is for its answer; all else waits some slots more, and begins if nobody has
/// by then.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct AccessConfig {
    /// What decides.
    pub by: AccessRule,
    /// The length of a slot, at least from the decision to begin to when all others hear it; 600 ms
    /// if absent, or what the modem takes to the first octet, if that is longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Time>,
    /// Slots among which a station draws; 16 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// The most of them, when the air is crowded: collisions double their number; 64 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots_max: Option<u32>,
    /// Two that answer each other with data let others in after this time; 30 s if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Time>,
}

/// What decides who may begin.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AccessRule {
    /// The end of each transmission: who was spoken to begins. Made for two.
    #[default]
    Turns,
    /// Slots of seconds, as stations in use have them: `slots` of the station says more.
    Slots,
    /// Stations have turns by their addresses, beginning behind who spoke last. They are to know
    /// each other as neighbours.
    Address,
    /// Whole slots, drawn anew each time.
    Chance,
    /// A time, drawn anew each time.
    Jitter,
}

/// Slots among which a station draws.
const SLOTS: u32 = 16;

impl AccessConfig {
    fn access(&self) -> Access {
        let order = match self.by {
            AccessRule::Turns | AccessRule::Slots => return Access::Turns,
            AccessRule::Address => Order::Address,
            AccessRule::Chance => Order::Chance,
            AccessRule::Jitter => Order::Jitter,
        };
        let time = |time: Option<Time>, or: Duration| time.map_or(or, |it| it.0);
        let slots = self.slots.unwrap_or(SLOTS);
        Access::Csma(Csma {
            order,
            slot: time(self.slot, Duration::from_millis(600)),
            slots,
            slots_max: self.slots_max.unwrap_or_else(|| slots.max(64)),
            exchange: time(self.exchange, Duration::from_secs(30)),
        })
    }
}

impl HfConfig {
    /// How the station shares the air.
    pub(super) fn access(&self, own: Address) -> Access {
        match (&self.slots, &self.access) {
            (Some(slots), _) => Access::Slots(slots.slots(own)),
            (None, Some(access)) if access.by == AccessRule::Slots => {
                Access::Slots(SlotsConfig::default().slots(own))
            }
            (None, access) => access
                .as_ref()
                .map(AccessConfig::access)
                .unwrap_or_default(),
        }
    }

    /// What of it can't be: the key, and why.
    pub(super) fn access_fault(&self) -> Option<(&'static str, &'static str)> {
        let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
        let slots = |wrong: &dyn Fn(&SlotsConfig) -> bool| self.slots.as_ref().is_some_and(wrong);
        let access =
            |wrong: &dyn Fn(&AccessConfig) -> bool| self.access.as_ref().is_some_and(wrong);
        let draws = |by: AccessRule| matches!(by, AccessRule::Chance | AccessRule::Jitter);
        let listens = |by: AccessRule| draws(by) || by == AccessRule::Address;
        let wrong = [
            (
                access(&|it| it.by != AccessRule::Slots) && self.slots.is_some(),
                "hf.access.by",
                "contradicts `slots`: remove one of them, or write by = \"slots\"",
            ),
            (
                slots(&|it| it.number.is_some_and(|number| number > 100)),
                "hf.slots.number",
                "must be 100 at most",
            ),
            (
                slots(&|it| outside(it.length, zero, second * 60)),
                "hf.slots.length",
                "must be 60 s at most",
            ),
            (
                slots(&|it| {
                    let outside = |time| outside(time, zero, second * 60);
                    outside(it.turn_min) || outside(it.delivery)
                }),
                "hf.slots.turn_min, delivery",
                "must be 60 s at most",
            ),
            (
                slots(&|it| outside(it.search, zero, second)),
                "hf.slots.search",
                "must be 1 s at most",
            ),
            (
                access(&|it| outside(it.slot, Duration::from_millis(1), second * 60)),
                "hf.access.slot",
                "must be 1 ms to 60 s",
            ),
            (
                access(&|it| it.slots.is_some_and(|slots| !(1..=256).contains(&slots))),
                "hf.access.slots",
                "must be 1 to 256",
            ),
            (
                access(&|it| {
                    let least = it.slots.unwrap_or(SLOTS);
                    it.slots_max
                        .is_some_and(|most| !(least..=1024).contains(&most))
                }),
                "hf.access.slots_max",
                "must be 1024 at most, and not less than `slots`, which is 16 if absent",
            ),
            (
                access(&|it| !draws(it.by) && (it.slots.is_some() || it.slots_max.is_some())),
                "hf.access.slots, slots_max",
                "are for by = \"chance\" and \"jitter\": remove them",
            ),
            (
                access(&|it| !listens(it.by) && (it.slot.is_some() || it.exchange.is_some())),
                "hf.access.slot, exchange",
                "are for by = \"address\", \"chance\" and \"jitter\": remove them",
            ),
            (
                access(&|it| outside(it.exchange, zero, second * 3600)),
                "hf.access.exchange",
                "must be 1 h at most",
            ),
        ];
        first_fault(wrong)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::*;
    use crate::config::NodeConfig;
    use crate::config_text;

    /// How the station of a port with these keys shares the air, or why it can't.
    fn access(keys: &str) -> Result<Access, String> {
        let text = format!(
            "name = \"a\"\n[host]\n[[port]]\nname = \"hf\"\nkind = \"hf\"\n\
             neighbours = [{{ name = \"b\", hf = \"0.0.0.3\" }}]\n\
             [port.hf]\naddress = \"0.0.0.2\"\n{keys}\n"
        );
        let config: NodeConfig = config_text::parse("a.toml", &text).map_err(|e| e.to_string())?;
        config.validate().map_err(|e| e.to_string())?;
        let port = &config.ports[0];
        let settings = port.hf().map(|hf| port.station(hf).0);
        settings.map(|it| it.access).ok_or_else(String::new)
    }

    #[test]
    fn access_is_by_turns_by_slots_or_by_listening() {
        assert_eq!(access(""), Ok(Access::Turns));
        let Ok(Access::Slots(slots)) = access("slots = {}") else {
            panic!("slots");
        };
        assert_eq!((slots.number, slots.length), (3, Duration::from_secs(3)));
        assert_eq!(access("access = { by = \"slots\" }"), access("slots = {}"));
        assert_eq!(access("access = {}"), Ok(Access::Turns));
        let usual = Csma {
            order: Order::Address,
            slot: Duration::from_millis(600),
            slots: 16,
            slots_max: 64,
            exchange: Duration::from_secs(30),
        };
        let usual = Ok(Access::Csma(usual));
        assert_eq!(access("access = { by = \"address\" }"), usual);
        let drawn = "access.by = \"jitter\"\naccess.slot = \"2 s\"\naccess.slots = 100\n\
                     access.exchange = \"0 s\"";
        let own = Csma {
            order: Order::Jitter,
            slot: Duration::from_secs(2),
            slots: 100,
            slots_max: 100,
            exchange: Duration::ZERO,
        };
        assert_eq!(access(drawn), Ok(Access::Csma(own)));
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_a_remedy() {
        for (keys, key, remedy) in [
            ("slots = {}\naccess = {}", "access.by", "remove one"),
            ("slots = { number = 101 }", "slots.number", "100 at most"),
            ("slots = { length = \"61 s\" }", "slots.length", "60 s"),
            (
                "access = { by = \"address\", slot = \"0 s\" }",
                "access.slot",
                "1 ms to 60 s",
            ),
            (
                "access = { by = \"chance\", slots = 0 }",
                "access.slots",
                "1 to 256",
            ),
            (
                "access = { by = \"chance\", slots_max = 15 }",
                "access.slots_max",
                "16 if absent",
            ),
            (
                "access = { by = \"address\", slots = 4 }",
                "access.slots, slots_max",
                "\"chance\"",
            ),
            ("access = { slot = \"1 s\" }", "access.slot,", "\"address\""),
            (
                "access = { by = \"jitter\", exchange = \"2 h\" }",
                "access.exchange",
                "1 h",
            ),
        ] {
            let error = access(keys).expect_err(keys);
            assert!(error.contains(key) && error.contains(remedy), "{error}");
        }
        for right in [
            "access = { by = \"chance\", slots = 256, slots_max = 1024 }",
            "access = { by = \"chance\", slots_max = 16 }",
            "access = { by = \"address\", slot = \"1 ms\", exchange = \"1 h\" }",
            "access = { by = \"slots\" }\nslots = { number = 100 }",
        ] {
            assert!(access(right).is_ok(), "{:?}", access(right));
        }
    }
}
