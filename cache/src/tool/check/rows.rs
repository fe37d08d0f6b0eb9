//! Checks of participants, and of pins in rows without a participant.

use super::checker::Checker;
use super::segments::is_dead;
use crate::tool::finding::FindingKind;
use crate::tool::view::RegionAccess;

impl<R: RegionAccess> Checker<'_, R> {
    /// Checks the rows of all participants, in use or not.
    pub(super) fn check_rows(&mut self) {
        for row in 0..self.view.region.participants_max() {
            if self.is_in_use(row) {
                self.check_dead(row);
                continue;
            }
            for segment in 0..self.view.geometry.segment_count() {
                self.check_pin(row, segment);
            }
        }
    }

    fn is_in_use(&self, row: u32) -> bool {
        self.participants.iter().any(|listed| listed.id.row == row)
    }

    /// Reports the participant of a row if it is dead and was not swept: its pins and segments are
    /// not released yet.
    fn check_dead(&mut self, row: u32) {
        let dead = self.confirm(|checker| {
            checker.participants = checker.view.region.participants();
            checker.participants.iter().find(|l| l.id.row == row && is_dead(l)).map(|l| l.id)
        });
        if dead.is_none() {
            return;
        }
        let all = 0..self.view.geometry.segment_count();
        let pins = all.map(|segment| self.view.pin_count(row, segment)).sum();
        self.add(FindingKind::Dead { pins }, |finding| finding.row = Some(row));
    }

    /// Checks that a row without a participant has no pin. A new participant of the row may pin a
    /// segment at any time, so a pin must persist to be reported.
    fn check_pin(&mut self, row: u32, segment: u32) {
        if self.view.pin_count(row, segment) == 0 {
            return;
        }
        let count = self.confirm(|checker| {
            checker.participants = checker.view.region.participants();
            let count = checker.view.pin_count(row, segment);
            let is_nobodys = !checker.is_in_use(row) && count != 0;
            is_nobodys.then_some(count)
        });
        if let Some(count) = count {
            self.add(FindingKind::Pins { count }, |finding| {
                finding.row = Some(row);
                finding.segment = Some(segment);
            });
        }
    }
}
