//! The settings that leave out an origin whose answers take much longer than those of the others.

use super::setting::{RawValue, Readable, Setting, ValueProblem};
use super::table::SiteSettings;

/// The times to the first byte at which an origin of a group is an outlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlierLimits {
    /// How many times longer than those of the other origins its answers must take.
    pub factor: u64,
    /// The time that its answers must take in any case.
    pub ms_min: u64,
}

/// The value of the setting `origin_outlier_factor`; 0 if no origin is an outlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutlierFactor(u8);

impl OutlierLimits {
    /// Returns the limits of a site with these settings; `None` if it has none.
    pub(super) fn of(settings: &SiteSettings) -> Option<OutlierLimits> {
        let (factor, ms_min) = (settings.origin_outlier_factor.0, settings.origin_outlier_ms_min);
        (factor > 0).then(|| OutlierLimits { factor: factor.into(), ms_min: ms_min.into() })
    }
}

impl Readable for OutlierFactor {
    fn read(raw: RawValue<'_>, setting: &Setting) -> Result<Self, ValueProblem> {
        match u8::read(raw, setting)? {
            1 => {
                let hint = "write 2 or more, because origins that work equally well differ by less";
                Err(setting.problem("cannot be 1").hint(hint))
            }
            factor => Ok(OutlierFactor(factor)),
        }
    }
}
