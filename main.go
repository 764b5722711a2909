// Command pilotlight keeps users off a model server until it is really fast.
package main

func main() {}
