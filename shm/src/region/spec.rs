//! The plan of a region.

/// The plan of a region. All processes that share a region have the same plan.
#[derive(Clone, Copy, Debug)]
pub struct RegionSpec<'a> {
    /// The size of the file, rounded up to whole pages. Bytes that no area uses stay unused.
    pub bytes: u64,
    /// The largest number of participants at one time, 1 to [`PARTICIPANTS_MAX`].
    ///
    /// [`PARTICIPANTS_MAX`]: super::PARTICIPANTS_MAX
    pub participants_max: u32,
    /// The barrier that orders publish-then-check. The plans of two processes may differ in this
    /// field: a process that attaches uses the barrier with which the region was made.
    pub barrier: BarrierWish,
    /// The program's areas, in the order in which they are in the file.
    pub areas: &'a [AreaSpec],
}

/// The barrier of a new region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BarrierWish {
    /// The cheapest barrier that orders all processes. This is a fence, since `membarrier` does not
    /// order all processes.
    #[default]
    Best,
    /// Fences.
    Fence,
}

/// One area of a region; all its words are initially zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaSpec {
    /// The kind of the area's content: a number from 16 on, which no other area of the region has.
    pub kind: u32,
    /// The version of the area's content.
    pub version: u32,
    /// The size in bytes, a multiple of 8.
    pub bytes: u64,
}
