//! Many descriptors behind one: those that have nothing to say cost nothing, however many.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Descriptors served before the node's ports have their turn.
const READY_MAX: usize = 64;

/// A place among the watched, and what it is watched for; nothing if `None`. Errors and hang-ups
/// are always told to what is watched at all.
#[derive(Debug)]
pub(super) struct Place {
    key: u64,
    flags: Option<EpollFlags>,
}

/// The descriptors, each with what it means.
#[derive(Debug)]
pub(super) struct Watch<T> {
    epoll: Epoll,
    meanings: BTreeMap<u64, T>,
    next: u64,
}

impl<T: Copy> Watch<T> {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            meanings: BTreeMap::new(),
            next: 0,
        })
    }

    /// A place for a descriptor that isn't watched yet.
    pub(super) fn place(&mut self, meaning: T) -> Place {
        let key = self.next;
        self.next += 1;
        self.meanings.insert(key, meaning);
        Place { key, flags: None }
    }

    /// The descriptor is closed, which ends its being watched.
    pub(super) fn forget(&mut self, place: &Place) {
        self.meanings.remove(&place.key);
    }

    /// From now on it is watched for this.
    pub(super) fn set(
        &self,
        place: &mut Place,
        fd: BorrowedFd<'_>,
        flags: Option<EpollFlags>,
    ) -> io::Result<()> {
        match (place.flags, flags) {
            (before, after) if before == after => {}
            (None, Some(flags)) => self.epoll.add(fd, EpollEvent::new(flags, place.key))?,
            (Some(_), Some(flags)) => {
                let mut event = EpollEvent::new(flags, place.key);
                self.epoll.modify(fd, &mut event)?;
            }
            (_, None) => self.epoll.delete(fd)?,
        }
        place.flags = flags;
        Ok(())
    }

    /// What is ready, and for what: some of it, and the rest the next time.
    pub(super) fn ready(&self) -> Vec<(T, EpollFlags)> {
        let mut events = [EpollEvent::empty(); READY_MAX];
        let count = self.epoll.wait(&mut events, EpollTimeout::ZERO);
        let found = events.iter().take(count.unwrap_or(0));
        let known = found.filter_map(|it| Some((*self.meanings.get(&it.data())?, it.events())));
        known.collect()
    }
}

impl<T> AsFd for Watch<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }
}
