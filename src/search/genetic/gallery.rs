//! The best few of every niche, bred within their niche: what small changes do not lead to, because what lies between is
//! worse, is kept alive here (MAP-Elites, Mouret and Clune 2015, "Illuminating search spaces by mapping elites").

use super::super::genome::Genome;
use super::super::stream::Stream;
use super::island::{Member, Neighbours};
use std::collections::BTreeMap;

/// Members of a room.
const ROOM: usize = 6;
/// One child in so many is a neighbour of its room's best while there are any left.
const LOCAL: usize = 2;

struct Room<S> {
    /// Best first.
    members: Vec<Member<S>>,
    neighbours: Neighbours,
}

/// One room per niche.
pub(super) struct Gallery<S> {
    /// Number of the island that children of the gallery are given.
    pub number: usize,
    rooms: BTreeMap<u64, Room<S>>,
}

impl<S: Clone> Gallery<S> {
    pub fn new(number: usize) -> Self {
        Self { number, rooms: BTreeMap::new() }
    }

    /// Whether there is anything that an island would not keep.
    pub fn is_divided(&self) -> bool {
        self.rooms.len() > 1
    }

    /// Hangs a member up if it is among the best of its niche.
    pub fn offer(&mut self, niche: u64, member: &Member<S>) {
        let room =
            self.rooms.entry(niche).or_insert_with(|| Room { members: Vec::new(), neighbours: Neighbours::default() });
        let rank = room.members.partition_point(|m| (m.score, m.key) < (member.score, member.key));
        if rank < ROOM && room.members.get(rank).is_none_or(|m| m.key != member.key) {
            room.members.insert(rank, member.clone());
            room.members.truncate(ROOM);
        }
    }

    /// Niches by their best, best first.
    fn ranking(&self) -> Vec<u64> {
        let mut niches: Vec<u64> = self.rooms.keys().copied().collect();
        niches.sort_by_key(|niche| self.rooms[niche].members.first().map(|m| (m.score, m.key)));
        niches
    }

    /// Rooms for the next `count` children, better ones more often (rank selection, Baker 1985).
    pub fn draw(&self, count: usize, stream: &mut Stream) -> Vec<u64> {
        let ranking = self.ranking();
        (0..count).map(|_| ranking[stream.index(ranking.len()).min(stream.index(ranking.len()))]).collect()
    }

    /// The members of a room, as founders of a population.
    pub fn founders(&self, niche: u64) -> Vec<(Genome, S)> {
        let members = self.rooms.get(&niche).map_or(&[][..], |room| &room.members);
        members.iter().map(|m| (m.genome.clone(), m.solution.clone())).collect()
    }

    /// Whether the child with this number in a generation is to be a neighbour of the best of its room.
    pub fn wants_neighbour(index: usize) -> bool {
        index.is_multiple_of(LOCAL)
    }

    /// The best of a room and a change of it that was not handed out yet: gene and option.
    pub fn next_neighbour(&mut self, niche: u64, stream: &mut Stream) -> Option<(&Member<S>, (usize, u32))> {
        let room = self.rooms.get_mut(&niche)?;
        let best = room.members.first()?;
        room.neighbours.next(best, stream).map(|change| (best, change))
    }

    /// The members of a room, best first, if there are any.
    pub fn members(&self, niche: u64) -> Option<&[Member<S>]> {
        self.rooms.get(&niche).map(|room| &room.members[..]).filter(|members| !members.is_empty())
    }
}

/// Two members of a room, the first a better one.
pub(super) fn parents<'m, S>(members: &'m [Member<S>], stream: &mut Stream) -> (&'m Member<S>, &'m Member<S>) {
    let n = members.len();
    (&members[stream.index(n).min(stream.index(n))], &members[stream.index(n)])
}
