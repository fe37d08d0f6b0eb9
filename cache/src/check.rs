//! A walk over everything that the store holds: recomputes all sums and reports contradictions.

use std::sync::Arc;

use forebay_sync::RwLock;

use crate::resource::Kind;
use crate::shard::Shard;
use crate::stats::Tally;
use crate::store::Store;

impl Store {
    /// Contradictions between what is stored and what is counted; none in a store that is whole.
    ///
    /// Each shard is walked under its lock, and is always right in itself. The sums over all of
    /// them are only right while nobody else works with the store.
    pub fn check(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut counted_bytes = self.stats().fixed_bytes;
        for (index, lock) in self.shards().enumerate() {
            let shard = lock.read();
            let before = faults.len();
            shard.check(self.config().variants_max, &mut faults);
            self.check_hashes(&shard, lock, &mut faults);
            faults[before..]
                .iter_mut()
                .for_each(|fault| *fault = format!("shard {index}: {fault}"));
            counted_bytes += shard.tally.body_bytes + shard.tally.metadata_bytes;
            counted_bytes += shard.flights.iter().map(|f| f.held_bytes()).sum::<u64>();
        }
        let (used_bytes, max) = (self.budget().used_bytes(), self.budget().bytes_max());
        if used_bytes > max || counted_bytes > used_bytes {
            faults.push(format!("{counted_bytes} bytes held, {used_bytes} charged, {max} allowed"));
        }
        let growing_bytes = self.budget().growing_bytes();
        if growing_bytes > self.config().growing_bytes_max {
            faults.push(format!("{growing_bytes} bytes growing"));
        }
        faults
    }

    /// Everything is in the shard, and under the hash, that its key has.
    fn check_hashes(&self, shard: &Shard, lock: &RwLock<Shard>, faults: &mut Vec<String>) {
        let resources = shard.table.iter().map(|resource| (&resource.key, resource.hash));
        let flights = shard.flights.iter().map(|flight| (&flight.primary, flight.hash));
        for (key, hash) in resources.chain(flights) {
            if self.hash(key) != hash || !std::ptr::eq(self.shard(hash), lock) {
                faults.push(format!("{key:?} is in the wrong place"));
            }
        }
    }
}

impl Shard {
    /// Table against queues and sums.
    fn check(&self, variants_max: usize, faults: &mut Vec<String>) {
        let mut sums = Tally::default();
        for resource in &self.table {
            sums.metadata_bytes += resource.charge.bytes();
            for stored in resource.stored() {
                sums.add(&stored.record);
                if self.queues.seen(stored.place) != Some((resource.hash, stored.record.cost())) {
                    faults.push(format!("{:?} is not where it should be queued", resource.key));
                }
            }
            if let Kind::Varied(varied) = &resource.kind {
                let variants = &varied.variants;
                let doubled = variants.iter().enumerate().any(|(index, variant)| {
                    variants[..index].iter().any(|earlier| earlier.key == variant.key)
                });
                if variants.is_empty() || variants.len() > variants_max || doubled {
                    faults.push(format!("{:?} has {} variants", resource.key, variants.len()));
                }
            }
            let found = self.table.find(resource.hash, |other| std::ptr::eq(other, resource));
            if found.is_none() {
                faults.push(format!("{:?} is not found", resource.key));
            }
        }
        let queued_count = self.queues.check(faults) as u64;
        if sums.record_count != queued_count || sums.record_count != self.tally.record_count {
            let (stored, counted) = (sums.record_count, self.tally.record_count);
            faults.push(format!("{stored} records, {queued_count} queued, {counted} counted"));
        }
        if (sums.body_bytes, sums.metadata_bytes)
            != (self.tally.body_bytes, self.tally.metadata_bytes)
        {
            faults.push(format!("sums are {sums:?}, kept are {:?}", self.tally));
        }
        for flight in &self.flights {
            let found = self.flight(flight.flight_hash, &flight.primary, flight.variant.as_deref());
            if !found.is_some_and(|found| Arc::ptr_eq(found, flight)) {
                faults.push(format!("{:?} has two flights", flight.primary));
            }
        }
    }
}
