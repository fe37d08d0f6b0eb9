//! Limits of metrics with labels.

/// Origins that have metrics of their own. Each adds 12 lines, which a monitoring system keeps for
/// a long time. A worker gathers the metrics of all origins in one turn of its loop.
pub(crate) const ORIGINS_SHOWN_MAX: usize = 256;

/// Sites that are counted by themselves; further sites are counted together. Each adds 21 lines to
/// the metrics. Each worker has 200 bytes for each of them, whether there is such a site or not.
pub(crate) const SITES_COUNTED_MAX: usize = 256;
