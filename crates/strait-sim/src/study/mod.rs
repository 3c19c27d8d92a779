//! The simulated halves of studies: what runs in virtual time, from set-ups in
//! `scenarios/studies/`. Who joins them with live halves makes the tables.

pub mod fair;
pub mod hbh;
pub mod hf;
pub mod hf_calls;
pub mod hf_ip;
pub mod hf_nets;
pub mod hf_rate;
mod hf_wait;
pub mod htb;
mod limits;
pub mod na;
pub mod na_local;
mod na_neighbours;
pub mod na_pairs;
pub mod policing;
pub mod pressure;
pub mod shares;
pub mod tcp;
pub mod transfer;
