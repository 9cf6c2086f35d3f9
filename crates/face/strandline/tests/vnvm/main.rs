//! What the virtualised NVM promises, held against every crash image of seeded runs: whatever was committed is in
//! the files after recovery, whole and in order, also if recovery crashes. Broken twins are caught.

mod again;
mod crashed;
mod damage;
mod desk;
mod holds;
mod host;
