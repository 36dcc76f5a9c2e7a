//! Every rule of the table, in a sentence.

mod fixture;
mod listing;
mod releasing;
mod requests;
mod stamping;
mod the_end;
