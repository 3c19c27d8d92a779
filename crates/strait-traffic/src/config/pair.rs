//! Packet pairs as a scenario has them.

use strait_core::keys::KeyError;

use super::{Traffic, TrafficKeys};
use crate::pair::PairCampaign;

impl TrafficKeys {
    /// Fills in the defaults of packet pairs.
    pub(super) fn pair(&self) -> Result<Traffic, KeyError> {
        let usual = PairCampaign::default();
        let narrow = |octets: u64| u32::try_from(octets).unwrap_or(u32::MAX);
        let sizes = self.sizes.as_ref();
        let sizes = sizes.map(|sizes| sizes.iter().map(|octets| narrow(octets.0)).collect());
        let campaign = PairCampaign {
            sizes: sizes.unwrap_or(usual.sizes),
            count: self.count.map_or(usual.count, narrow),
            train: self.train.unwrap_or(usual.train),
            trains: self.trains.unwrap_or(usual.trains),
            pause: self.pause.map_or(usual.pause, |pause| pause.0),
            timeout: self.timeout.map_or(usual.timeout, |timeout| timeout.0),
            seed: usual.seed,
        };
        match campaign.fault() {
            Some((key, bounds)) => Err(self.bounds(key, bounds)),
            None => Ok(Traffic::Pair(campaign)),
        }
    }
}
