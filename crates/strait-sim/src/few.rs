//! A list that rarely has more than two members: these lie in it, and not elsewhere in memory.

use std::ops::Deref;

/// The list; read as a slice.
#[derive(Clone, Debug, Default)]
pub(crate) enum Few<T> {
    /// Nobody.
    #[default]
    None,
    /// One.
    One(T),
    /// Two.
    Two([T; 2]),
    /// More.
    Many(Vec<T>),
}

impl<T> Few<T> {
    /// Adds a member behind the others.
    pub(crate) fn push(&mut self, last: T) {
        *self = match std::mem::take(self) {
            Self::None => Self::One(last),
            Self::One(first) => Self::Two([first, last]),
            Self::Two([first, second]) => Self::Many(vec![first, second, last]),
            Self::Many(mut all) => {
                all.push(last);
                Self::Many(all)
            }
        };
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(one) => std::slice::from_ref(one),
            Self::Two(two) => two,
            Self::Many(all) => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stay_in_their_order() {
        let mut few = Few::default();
        for count in 0..5 {
            assert!(few.iter().copied().eq(0..count));
            few.push(count);
        }
    }
}
