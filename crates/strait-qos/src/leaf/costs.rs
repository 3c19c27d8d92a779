//! The costs of octets for each neighbour on a line that all share.

use alloc::boxed::Box;

use strait_core::NeighbourId;

/// Parts of a cost of one.
const ONE: u32 = 256;

/// By neighbour, how many times those for the cheapest one its octets count: on a shared channel a
/// far receiver's frames take longer. `fair` queues divide their class by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs(Box<[u32]>);

impl Costs {
    /// These, by neighbour from number 0 on; all others cost 1.
    pub fn new(times: impl Iterator<Item = f64>) -> Self {
        Self(times.map(|it| (it * f64::from(ONE)) as u32).collect())
    }

    fn parts(&self, to: NeighbourId) -> u32 {
        self.0.get(to.index()).copied().unwrap_or(ONE)
    }

    /// As many octets for the cheapest neighbour as these for this one are worth.
    pub fn times(&self, to: NeighbourId, octets: u64) -> u64 {
        octets * u64::from(self.parts(to)) / u64::from(ONE)
    }

    /// Whether a neighbour's cost is another one by more than an eighth.
    pub fn differ(&self, other: &Self) -> bool {
        let count = self.0.len().max(other.0.len()) as u16;
        (0..count).map(NeighbourId).any(|to| {
            let (mine, theirs) = (self.parts(to), other.parts(to));
            mine.abs_diff(theirs) > theirs / 8
        })
    }
}
