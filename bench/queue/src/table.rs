//! The map that both processes read.

use std::cell::RefCell;
use std::path::Path;

use forebay_ordmap::{Map, MapOptions, MapParticipant, OrdConfig, OrdRegion};

use crate::data::{Data, digest};

pub(crate) struct Table {
    map: Map<'static>,
    value: RefCell<Vec<u8>>,
}

impl Table {
    /// Creates a map with all keys and values.
    pub(crate) fn create(path: &Path, data: &Data) -> Result<Table, String> {
        let record_bytes = (data.keys[0].len() + data.value_bytes + 64) as u64;
        let bytes = (64 << 20) + record_bytes * data.keys.len() as u64 * 3 / 2;
        let region = OrdRegion::open_or_create(path, &OrdConfig::with_bytes(bytes));
        let table = Table::of(region.map_err(|error| error.to_string())?)?;
        let mut value = Vec::new();
        for asked in data.pick(data.keys.len(), 0) {
            data.value(asked.number, &mut value);
            let stored = table.map.insert(&asked.key, &value);
            stored.map_err(|error| error.to_string())?;
        }
        Ok(table)
    }

    pub(crate) fn attach(path: &Path) -> Result<Table, String> {
        Table::of(OrdRegion::attach(path).map_err(|error| error.to_string())?)
    }

    fn of(region: OrdRegion) -> Result<Table, String> {
        // The participant is never freed, since the map borrows it.
        let participant = Box::leak(Box::new(region.join().map_err(|error| error.to_string())?));
        let participant: &'static MapParticipant = participant;
        let map =
            participant.map("bench", &MapOptions::default()).map_err(|error| error.to_string())?;
        Ok(Table { map, value: RefCell::default() })
    }

    /// Returns a checksum of the value of a key.
    pub(crate) fn look(&self, key: &[u8]) -> u64 {
        let mut value = self.value.borrow_mut();
        value.clear();
        let found = self.map.read_into(key, &mut value).expect("the map is sound");
        if found { digest(&value) } else { 0 }
    }

    /// Reads the value of a key into an answer.
    pub(crate) fn answer(&self, key: &[u8], answer: &mut Vec<u8>) {
        answer.clear();
        self.map.read_into(key, answer).expect("the map is sound");
    }
}
