//! The modelled machine: cores, caches, controllers, devices.
