//! The plan of a region.

/// The plan of a region. All processes that share a region have the same plan.
#[derive(Clone, Copy, Debug)]
pub struct RegionSpec<'a> {
    /// The size of the file, rounded up to whole pages. Bytes that no area uses are spare.
    pub bytes: u64,
    /// The number of participants that there can be at one time, 1 to [`PARTICIPANTS_MAX`].
    ///
    /// [`PARTICIPANTS_MAX`]: super::PARTICIPANTS_MAX
    pub participants_max: u32,
    /// How publish-then-check is ordered. Two plans may differ in this: a process that attaches
    /// uses the barrier that the region was made with.
    pub barrier: BarrierWish,
    /// The program's areas, in the order in which they are in the file.
    pub areas: &'a [AreaSpec],
}

/// The barrier of a new region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarrierWish {
    /// The cheapest barrier that orders all processes. It is a fence, since `membarrier` does not
    /// order all processes.
    #[default]
    Best,
    /// Fences, so that every process can follow.
    Fence,
}

/// One area of a region; all its words are zero at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaSpec {
    /// The kind of its content: 16 or more, each at most once in a region.
    pub kind: u32,
    /// The version of its content.
    pub version: u32,
    /// The size in bytes, a multiple of 8.
    pub bytes: u64,
}
