"""Consumers in other languages, recorded on the lab's broker: drawn and given their truth first, judged later."""
