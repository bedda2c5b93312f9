/// All that is known of one key.
#[derive(Debug)]
pub(super) struct Record<K> {
    pub(super) key: K,
    /// While [`WAITING`](State::WAITING): when the delay is over. While idle: since when.
    pub(super) deadline: u64,
    pub(super) hash: u32,
    pub(super) failures: u32,
    /// The highest priority of the adds since the last hand-out.
    pub(super) priority: i32,
    pub(super) state: State,
}

/// What a key is. Any combination can be; none at all is idle, a key that is remembered for its failures only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(u8);

impl State {
    pub(super) const IDLE: Self = Self(0);
    /// There is work to do. Queued, unless it is also in flight.
    pub(super) const DIRTY: Self = Self(1);
    /// Handed out.
    pub(super) const RUNNING: Self = Self(2);
    /// To be added when its deadline comes.
    pub(super) const WAITING: Self = Self(4);
    /// The delay is a retry. Else it is a reminder.
    pub(super) const RETRY: Self = Self(8);

    pub(super) fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(super) fn set(&mut self, flag: Self) {
        self.0 |= flag.0;
    }

    pub(super) fn clear(&mut self, flag: Self) {
        self.0 &= !flag.0;
    }

    pub(super) fn is_idle(self) -> bool {
        self.0 & (Self::DIRTY.0 | Self::RUNNING.0 | Self::WAITING.0) == 0
    }

    pub(super) fn is_queued(self) -> bool {
        self.0 & (Self::DIRTY.0 | Self::RUNNING.0) == Self::DIRTY.0
    }
}
