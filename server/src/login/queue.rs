//! The order in which passwords are checked: the client networks take turns, so that a network that
//! guesses passwords delays others by one check at a time.

use std::collections::VecDeque;

use super::{LoginCheck, LoginTag};
use crate::accept::ClientNetwork;
use crate::limits::{LOGIN_CHECKS_MAX, LOGIN_CHECKS_PER_NETWORK_MAX, LOGIN_TURNS_KEPT_MAX};

/// The checks that wait or run, at most `LOGIN_CHECKS_MAX`; at most one runs. `W` is the work of a
/// check.
#[derive(Debug)]
pub(super) struct CheckQueue<W> {
    /// The checks, in the order of their arrival.
    checks: Vec<QueuedCheck<W>>,
    /// The networks that had a turn, each once; the network whose turn is the longest ago is first.
    turns: VecDeque<ClientNetwork>,
}

#[derive(Debug)]
struct QueuedCheck<W> {
    network: ClientNetwork,
    tag: LoginTag,
    result: LoginCheck,
    /// `None` while the check runs.
    work: Option<W>,
}

/// The checks in the queue leave no room for another one of this network.
#[derive(Debug, PartialEq)]
pub(super) struct QueueFull;

impl<W> Default for CheckQueue<W> {
    fn default() -> Self {
        CheckQueue { checks: Vec::new(), turns: VecDeque::new() }
    }
}

impl<W> CheckQueue<W> {
    /// Returns the check with this tag.
    pub(super) fn find(&self, tag: &LoginTag) -> Option<&LoginCheck> {
        self.checks.iter().find(|check| check.tag == *tag).map(|check| &check.result)
    }

    /// Adds a check. If the queue is full, the check takes the place of the last one of the network
    /// that has the most checks waiting, provided that this is at least two more than `network`
    /// has. The work of the displaced check is dropped.
    pub(super) fn add(
        &mut self,
        (network, tag): (ClientNetwork, LoginTag),
        result: LoginCheck,
        work: W,
    ) -> Result<(), QueueFull> {
        let own_count = self.count_of(network);
        if own_count >= LOGIN_CHECKS_PER_NETWORK_MAX {
            return Err(QueueFull);
        }
        if self.checks.len() >= LOGIN_CHECKS_MAX {
            let waiting = self.checks.iter().enumerate().filter(|(_, check)| check.work.is_some());
            let (count, last) = waiting
                .map(|(index, check)| (self.count_of(check.network), index))
                .max()
                .ok_or(QueueFull)?;
            if count < own_count + 2 {
                return Err(QueueFull);
            }
            self.checks.remove(last);
        }
        self.checks.push(QueuedCheck { network, tag, result, work: Some(work) });
        Ok(())
    }

    fn count_of(&self, network: ClientNetwork) -> usize {
        self.checks.iter().filter(|check| check.network == network).count()
    }

    /// Returns the work of the check whose turn it is, with the check's tag. Networks that had no
    /// turn come first, then the network whose turn is the longest ago. The check stays in the
    /// queue until [`CheckQueue::end`].
    pub(super) fn next(&mut self) -> Option<(LoginTag, W)> {
        let turn_of = |network| self.turns.iter().position(|other| *other == network);
        let waiting = self.checks.iter().enumerate().filter(|(_, check)| check.work.is_some());
        // `None` is less than all turns; of the checks of one network, the first arrival is taken.
        let (index, _) = waiting.min_by_key(|(_, check)| turn_of(check.network))?;
        let check = &mut self.checks[index];
        let (network, tag, work) = (check.network, check.tag, check.work.take()?);
        self.turns.retain(|other| *other != network);
        self.turns.push_back(network);
        if self.turns.len() > LOGIN_TURNS_KEPT_MAX {
            self.turns.pop_front();
        }
        Some((tag, work))
    }

    /// Removes the check with this tag.
    pub(super) fn end(&mut self, tag: &LoginTag) {
        self.checks.retain(|check| check.tag != *tag);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn network(number: u8) -> ClientNetwork {
        ClientNetwork::of(IpAddr::from([192, 0, 2, number]), 64)
    }

    fn add(queue: &mut CheckQueue<u8>, from: u8, number: u8) -> Result<(), QueueFull> {
        queue.add((network(from), [number; 32]), LoginCheck::new().1, number)
    }

    /// Takes and ends the next check; returns its number.
    fn run(queue: &mut CheckQueue<u8>) -> Option<u8> {
        let (tag, number) = queue.next()?;
        assert_eq!(tag, [number; 32]);
        queue.end(&tag);
        Some(number)
    }

    #[test]
    fn networks_take_turns_and_a_new_one_is_next() {
        let mut queue = CheckQueue::default();
        for number in 0..4 {
            add(&mut queue, 1, number).expect("there is room");
        }
        assert_eq!(run(&mut queue), Some(0));
        for number in 10..12 {
            add(&mut queue, 2, number).expect("there is room");
        }
        assert_eq!(run(&mut queue), Some(10));
        assert_eq!(run(&mut queue), Some(1));
        add(&mut queue, 3, 20).expect("there is room");
        let rest: Vec<u8> = std::iter::from_fn(|| run(&mut queue)).collect();
        assert_eq!(rest, [20, 11, 2, 3]);
    }

    #[test]
    fn a_full_queue_makes_room_for_a_network_with_few_checks() {
        let mut queue = CheckQueue::default();
        let per_network = LOGIN_CHECKS_PER_NETWORK_MAX;
        for number in 0..LOGIN_CHECKS_MAX {
            add(&mut queue, (number / per_network) as u8, number as u8).expect("there is room");
        }
        assert_eq!(add(&mut queue, 0, 90), Err(QueueFull), "it has its part");
        assert_eq!(add(&mut queue, 100, 91), Ok(()));
        let displaced = (LOGIN_CHECKS_MAX - 1) as u8;
        assert!(queue.find(&[displaced; 32]).is_none(), "the last of the largest went");
        assert!(queue.find(&[91; 32]).is_some());
        assert_eq!(queue.checks.len(), LOGIN_CHECKS_MAX);
        // Each of many networks gets a place, and in the end no network has two more than another.
        let placed = (101..=255).filter(|from| add(&mut queue, *from, *from).is_ok()).count();
        assert!(placed >= LOGIN_CHECKS_MAX - LOGIN_CHECKS_MAX / per_network - 1, "{placed}");
        assert_eq!(add(&mut queue, 99, 92), Err(QueueFull), "none can be displaced");
        assert_eq!(queue.checks.len(), LOGIN_CHECKS_MAX);
    }

    #[test]
    fn the_running_check_keeps_its_place() {
        let mut queue = CheckQueue::default();
        add(&mut queue, 1, 1).expect("there is room");
        assert_eq!(queue.next(), Some(([1; 32], 1)));
        assert!(queue.find(&[1; 32]).is_some(), "requests with the same password join it");
        assert_eq!(queue.next(), None);
        for number in 2..=LOGIN_CHECKS_PER_NETWORK_MAX as u8 {
            add(&mut queue, 1, number).expect("there is room");
        }
        assert_eq!(add(&mut queue, 1, 99), Err(QueueFull), "the running check counts");
        queue.end(&[1; 32]);
        assert_eq!(add(&mut queue, 1, 99), Ok(()));
    }

    #[test]
    fn few_turns_are_kept() {
        let mut queue = CheckQueue::default();
        for number in 0..=u8::MAX {
            add(&mut queue, number, number).expect("there is room");
            assert_eq!(run(&mut queue), Some(number));
        }
        assert_eq!(queue.turns.len(), LOGIN_TURNS_KEPT_MAX);
    }
}
