//! What a program wants a region to be.

/// The plan of a region. Processes that share one have the same plan.
#[derive(Clone, Copy, Debug)]
pub struct RegionSpec<'a> {
    /// Size of the file, rounded up to whole pages. What the areas leave is spare.
    pub bytes: u64,
    /// How many participants there can be at one time, 1 to [`PARTICIPANTS_MAX`].
    ///
    /// [`PARTICIPANTS_MAX`]: super::PARTICIPANTS_MAX
    pub participants_max: u32,
    /// How publish-then-check is kept in order. Not part of the plan: who comes later follows.
    pub barrier: BarrierWish,
    /// The program's areas, in the order in which they lie in the file.
    pub areas: &'a [AreaSpec],
}

/// Which barrier a new region gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarrierWish {
    /// The cheapest that orders all processes: fences. `membarrier` for all of them does not.
    #[default]
    Best,
    /// Fences, so that every process can follow.
    Fence,
}

/// One area of a region; all its words are zero at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaSpec {
    /// What lies there: 16 or more, each at most once in a region.
    pub kind: u32,
    /// Version of what lies there.
    pub version: u32,
    /// Size, a multiple of 8.
    pub bytes: u64,
}
